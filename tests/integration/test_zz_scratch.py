import os, json, time
import pytest
from tests.integration.test_pool_abuse import *
from pathlib import Path
def test_scratch(pool, users):
    alice, bob = users
    h = home(pool, alice)
    bad = h/"bad.sh"; bad.write_text("#!/no/such/python\nprint(1)\n"); bad.chmod(0o755)
    crlf = h/"crlf.sh"; crlf.write_text("#!/bin/sh\r\necho 1\r\n"); crlf.chmod(0o755)
    noshebang = h/"nosb"; noshebang.write_text("echo hi\n"); noshebang.chmod(0o755)
    binx = h/"bin"; binx.write_bytes(b"\x7fELF"+b"\0"*100); binx.chmod(0o755)
    nox = h/"nox"; nox.write_text("#!/bin/sh\n"); nox.chmod(0o644)
    for f in h.iterdir(): os.chown(f, alice.uid, alice.uid)
    alice.do("from moiety.model import errors")
    def sub(**v):
        base=dict(cwd=str(h), gpus=0, program="/bin/true", argv=["true"], environment={"PATH":"/bin:/usr/bin"})
        base.update(v)
        alice.do(SUBMIT.format(values=base))
        return alice.do("told")
    cases = dict(
      badinterp=dict(program=str(bad),argv=["bad"]), crlf=dict(program=str(crlf),argv=["x"]), nosb=dict(program=str(noshebang),argv=["x"]),
      elf=dict(program=str(binx),argv=["x"]), nox=dict(program=str(nox),argv=["x"]), isdir=dict(program="/tmp",argv=["x"]),
      longarg=dict(argv=["x","a"*200000]), manyargs=dict(argv=["x"]*300000), longenv=dict(environment={"A":"b"*140000}),
      bigtotal=dict(argv=["x"]+["\u20ac"*40000]*30),
      stdinnul=dict(stdin="/dev/null\0x"), stdin_missing=dict(stdin="/no/such"), nocwd=dict(cwd="/root/x"), devfull=dict(stdout="/dev/full",program="/bin/echo",argv=["echo","hi"]),
      ownproc=dict(stdout="/proc/self/mem",program="/bin/echo",argv=["echo","x"]),
      tiny=dict(time_limit_s=0.0001,program="/bin/sleep",argv=["sleep","4"],grace_s=0),
      envkey=dict(environment={"A=B":"c","":"x","PATH":"/bin"},program="/usr/bin/env",argv=["env"]),
      labels=dict(labels={"a":"b\nc"}), longpath=dict(stdout="/tmp/"+"a"*300), longpath2=dict(stdout="/"+"a/"*3000),
      patt=dict(stdout="%j%x%%%"), core=dict(program="/bin/sh",argv=["sh","-c","ulimit -c; kill -SEGV $$"]),
      pgrp=dict(program="/bin/sh",argv=["sh","-c","ulimit -a; cat /proc/self/status; ls -l /proc/self/fd; cat /proc/self/cgroup; cat /proc/self/oom_score_adj; env; cat /proc/self/limits; umask"],stdout=str(h/"st.log")),
    )
    n={k:sub(**v) for k,v in cases.items()}
    for k,v in n.items():
        if isinstance(v,str): print(k,"REFUSED",v[:200]); continue
        t=time.time()
        while time.time()-t<8:
            row=pool.row(v)
            if row.ended_s or row.failures: break
            time.sleep(.1)
        print(k, v, row.state, row.exit_code, row.exit_signal, row.failures, repr(row.reason)[:250])
    print((h/"st.log").read_text())
    print(pool.log()[-3000:])
