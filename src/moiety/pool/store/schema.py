"""The schema of the store, and how an older one becomes the present one."""

from __future__ import annotations

import sqlite3
from typing import Final

from moiety.model.errors import StoreNewer

MIGRATIONS: Final = (
    """
    CREATE TABLE project(
      name TEXT PRIMARY KEY,
      row BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE workload(
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      name TEXT NOT NULL,
      project TEXT NOT NULL REFERENCES project(name),
      uid INTEGER NOT NULL,
      user TEXT NOT NULL,
      state TEXT NOT NULL,
      reason TEXT NOT NULL DEFAULT '',
      gpus INTEGER NOT NULL,
      gpu_milli INTEGER NOT NULL,
      gpu_memory_mib INTEGER NOT NULL,
      memory_limit_mib INTEGER NOT NULL,
      gpu_model TEXT NOT NULL,
      cpu_milli INTEGER NOT NULL,
      memory_mib INTEGER NOT NULL,
      priority INTEGER NOT NULL,
      opportunistic INTEGER NOT NULL,
      preemptible INTEGER NOT NULL,
      time_limit_s REAL,
      grace_s REAL NOT NULL,
      submitted_s REAL NOT NULL,
      not_before_s REAL NOT NULL DEFAULT 0,
      began_s REAL,
      ended_s REAL,
      attempt INTEGER NOT NULL DEFAULT 0,
      failures INTEGER NOT NULL DEFAULT 0,
      intent TEXT NOT NULL DEFAULT '',
      cards TEXT NOT NULL DEFAULT '',
      exit_code INTEGER,
      exit_signal INTEGER,
      command TEXT NOT NULL,
      stdout TEXT NOT NULL,
      stderr TEXT NOT NULL,
      changed INTEGER NOT NULL
    );
    CREATE INDEX workload_changed ON workload(changed);
    CREATE INDEX workload_live ON workload(id)
      WHERE state IN ('pending', 'held', 'starting', 'running', 'ending');
    CREATE INDEX workload_over ON workload(ended_s) WHERE ended_s IS NOT NULL;
    CREATE INDEX workload_name ON workload(name);
    CREATE TABLE body(
      workload INTEGER PRIMARY KEY REFERENCES workload(id),
      submission BLOB NOT NULL,
      script BLOB NOT NULL
    );
    CREATE TABLE attempt(
      workload INTEGER NOT NULL REFERENCES workload(id),
      number INTEGER NOT NULL,
      cards TEXT NOT NULL,
      committed_s REAL NOT NULL,
      supervisor_pid INTEGER,
      supervisor_started INTEGER,
      agent_workload TEXT NOT NULL DEFAULT '',
      ended_s REAL,
      outcome TEXT NOT NULL DEFAULT '',
      PRIMARY KEY(workload, number)
    ) WITHOUT ROWID;
    CREATE TABLE audit(
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      at_s REAL NOT NULL,
      uid INTEGER NOT NULL,
      act TEXT NOT NULL,
      target TEXT NOT NULL
    );
    INSERT INTO project VALUES('default', '{"name":"default","quota":0.0}');
    """,
    """
    ALTER TABLE workload ADD COLUMN begin_after_s REAL NOT NULL DEFAULT 0;
    ALTER TABLE workload ADD COLUMN array_id INTEGER;
    ALTER TABLE workload ADD COLUMN array_index INTEGER;
    ALTER TABLE workload ADD COLUMN array_at_once INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE workload ADD COLUMN depends TEXT NOT NULL DEFAULT '';
    ALTER TABLE workload ADD COLUMN tasks INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE workload ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE workload ADD COLUMN requeue INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE workload ADD COLUMN restarts INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE workload ADD COLUMN suspended_s REAL NOT NULL DEFAULT 0;
    ALTER TABLE workload ADD COLUMN suspended_since_s REAL;
    ALTER TABLE workload ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';
    ALTER TABLE workload ADD COLUMN blocked TEXT NOT NULL DEFAULT '';
    ALTER TABLE workload ADD COLUMN retried INTEGER NOT NULL DEFAULT 0;
    DROP INDEX workload_live;
    CREATE INDEX workload_live ON workload(id)
      WHERE state IN ('pending', 'held', 'starting', 'running', 'suspending', 'suspended',
                      'resuming', 'ending');
    CREATE INDEX workload_array ON workload(array_id, array_index) WHERE array_id IS NOT NULL;
    CREATE INDEX workload_array_live ON workload(array_id, state) WHERE array_id IS NOT NULL
      AND state IN ('pending', 'held', 'starting', 'running', 'suspending', 'suspended',
                    'resuming', 'ending');
    CREATE INDEX workload_fold ON workload(array_id, state, id, array_index)
      WHERE array_id IS NOT NULL AND attempt = 0 AND state IN ('pending', 'held');
    CREATE INDEX workload_single ON workload(id)
      WHERE state IN ('pending', 'held', 'starting', 'running', 'suspending', 'suspended',
                      'resuming', 'ending')
        AND NOT (array_id IS NOT NULL AND attempt = 0 AND state IN ('pending', 'held'));
    CREATE INDEX workload_live_name ON workload(name, uid, id)
      WHERE state IN ('pending', 'held', 'starting', 'running', 'suspending', 'suspended',
                      'resuming', 'ending');
    CREATE TABLE dependency(
      owner INTEGER NOT NULL REFERENCES workload(id),
      place INTEGER NOT NULL,
      kind TEXT NOT NULL,
      target INTEGER NOT NULL,
      is_whole INTEGER NOT NULL,
      delay_s REAL NOT NULL,
      key TEXT NOT NULL,
      PRIMARY KEY(owner, place)
    ) WITHOUT ROWID;
    CREATE INDEX dependency_target ON dependency(target) WHERE target > 0;
    CREATE INDEX dependency_key ON dependency(key) WHERE key != '';
    ALTER TABLE workload ADD COLUMN max_rss_kib INTEGER;
    ALTER TABLE workload ADD COLUMN user_s REAL;
    ALTER TABLE workload ADD COLUMN system_s REAL;
    CREATE INDEX workload_live_user ON workload(user, id)
      WHERE state IN ('pending', 'held', 'starting', 'running', 'suspending', 'suspended',
                      'resuming', 'ending');
    CREATE INDEX workload_over_user ON workload(user, ended_s) WHERE ended_s IS NOT NULL;
    ALTER TABLE workload ADD COLUMN turn_s REAL NOT NULL DEFAULT 0;
    CREATE INDEX workload_waiting ON workload(uid) WHERE state IN ('pending', 'held');
    CREATE TABLE turn(
      project TEXT NOT NULL,
      uid INTEGER NOT NULL,
      at_s REAL NOT NULL,
      PRIMARY KEY(project, uid)
    ) WITHOUT ROWID;
    CREATE TABLE memory(
      name TEXT PRIMARY KEY,
      content BLOB NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE step(
      workload INTEGER NOT NULL REFERENCES workload(id),
      attempt INTEGER NOT NULL,
      number INTEGER NOT NULL,
      name TEXT NOT NULL,
      command TEXT NOT NULL,
      tasks INTEGER NOT NULL,
      cpus INTEGER NOT NULL,
      gpus INTEGER NOT NULL,
      began_s REAL NOT NULL,
      ended_s REAL,
      exit_code INTEGER NOT NULL,
      exit_signal INTEGER NOT NULL,
      PRIMARY KEY(workload, attempt, number)
    ) WITHOUT ROWID;
    """,
)
"""Each brings the store to the version of its place, counted from 1. None is ever changed."""


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the store to the present schema; raises StoreNewer."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise StoreNewer(version, len(MIGRATIONS))
    for number, statements in enumerate(MIGRATIONS[version:], version + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {statements}; PRAGMA user_version={number};")
        connection.execute("COMMIT")
