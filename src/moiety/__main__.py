"""`python -m moiety` is the `moiety` command."""

from moiety.cli.main import main

main()
