"""`python -m moiety.slurm NAME ARGUMENTS...` is one of Slurm's programs."""

import sys

from moiety.slurm.programs import main

main(sys.argv[1], sys.argv[2:])
