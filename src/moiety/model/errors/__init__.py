"""Everything that can go wrong, each with what happened, what to try, and an exit code.

    MoietyError
    ├── InvalidValue (also a ValueError)         64
    │   ├── BadArgument                          64   the options do not go together
    │   ├── InvalidSize                          64   --memory-limit banana
    │   ├── InvalidDuration                      64
    │   ├── InvalidFraction                      64
    │   ├── InvalidGang                          64   --gang-size without --gang
    │   ├── InvalidPriority                      64
    │   ├── RequestAboveLimit                    64   --gpu 0.5 --gpu-limit 0.3
    │   ├── MemoryAboveLimit                     64
    │   ├── InvalidMode                          64
    │   ├── KeptManaged                          64   --mode managed --memory 1GiB
    │   ├── LimitAboveGpu                        64   --memory-limit 150% without --mode managed
    │   └── LimitTooSmall                        64   --memory-limit 1
    ├── AmountError
    │   ├── LimitAboveCapacity                   64   --memory-limit 1TiB
    │   ├── MemoryAboveGpu                       64   --memory 1TiB
    │   ├── CapacityAboveGpu                     64   --capacity 1TiB
    │   ├── CapacityMismatch                     64   the agent shares out another amount
    │   ├── ShareTaken                           75   others were promised too much of it
    │   ├── UserLimit                            77   the settings let this user have no more
    │   └── ArenaAboveHost                       64   --arena 100GiB on a small machine
    ├── InternalError                            70   a mistake in moiety
    ├── SystemRefusal                            74   the disk is full
    ├── ProtocolError                            76   a message that makes no sense
    ├── InstallationError
    │   ├── NativeLibraryMissing                 78
    │   ├── ArraysMissing                        78   the simulator needs numpy
    │   ├── ScreenMissing                        78
    │   ├── YamlMissing                          78   -o yaml needs PyYAML
    │   └── PlotMissing                          78
    ├── GpuError
    │   ├── NoDriver                             69
    │   ├── DriverTooOld                         69
    │   ├── NoGpu                                69
    │   ├── GpuOwned                             75   by another agent
    │   └── GpusDrained                          75   they get no new programs
    ├── AgentError
    │   ├── NoAgent                              69   no agent runs in this directory
    │   ├── AgentNotYours                        77
    │   ├── AgentSilent                          69   it did not answer
    │   ├── AgentVersion                         76
    │   ├── AgentAlreadyRunning                  75
    │   ├── AgentBusy                            75
    │   ├── AgentStopping                        75
    │   ├── BadRequest                           76
    │   ├── BadAgentDirectory                    73
    │   ├── WorkloadUnknown                      66
    │   ├── UserUnknown                          66
    │   ├── WorkloadAmbiguous                    64   several have that name
    │   ├── StillRunning                         75   `moiety wait --timeout` has passed
    │   ├── NotAllowed                           77   it takes an administrator, or its owner
    │   ├── TooMany                              75   connections or programs of one user
    │   ├── ContainerShareInUse                  75
    │   ├── ContainerShareUnknown                66
    │   └── MetricsRefused                       73   nothing can listen at that address
    ├── PoolError
    │   ├── NoPool                               69   no pool runs beside this agent
    │   ├── PoolSilent                           69
    │   ├── PoolRunning                          75   another process serves it
    │   ├── PoolPromises                         75   only the pool promises parts of GPUs
    │   ├── PoolMissing                          78   the extra `pool` is not installed
    │   ├── PoolAccountUnusable                  78   the account that the settings name
    │   ├── TooMuchWaiting                       75   a user may have no more waiting work
    │   ├── StarterGone                          69   the root part of the pool has ended
    │   ├── StoreBroken                          65   the pool's database cannot be read
    │   ├── StoreNewer                           78   it is of a later version
    │   ├── TooManyWatchers                      75   the pool tells as many as it can
    │   ├── WorkUnknown                          66
    │   ├── WorkAmbiguous                        64   several have that name
    │   ├── WorkStateWrong                       75   such as hold for work that runs
    │   ├── ProjectUnknown                       66
    │   └── PoolFileInvalid                      65   pool.yaml makes no sense
    ├── FileError
    │   ├── FileExists                           73
    │   ├── FileNotWritable                      73
    │   ├── RecordingInvalid                     65   a recording of events cannot be replayed
    │   ├── RecordingMissing                     66
    │   ├── TraceInvalid                         65   a line of a trace makes no sense
    │   ├── TraceMissing                         66
    │   └── ScenarioInvalid                      65   a case makes no sense
    ├── ConfigError
    │   ├── BadConfigFile                        78   a file of settings cannot be read
    │   └── BadSetting                           78   an unknown name or an impossible value
    ├── ClusterRefusal                           69   no API server, or it refuses
    ├── PodRefusal                               69   a pod has no share, or keeps the one it has
    └── ProgramError
        ├── WrongArchitecture                   126   as env(1)
        ├── SecureProgram                       126   setuid, setgid, capabilities
        ├── StaticProgram                       126
        ├── MuslProgram                         126
        ├── ImageUnfit                          126   no program of this image can be shared
        ├── ToolRefused                         126   a debugger that would hold the GPU for ever
        ├── ProgramNotExecutable                126
        └── ProgramNotFound                     127   as env(1)

A class without a number is never raised itself. The numbers are ExitCode's: each tells a script
what can be done. The class tells errors apart exactly: MOIETY_ERRORS=json names it.

This package owns the errors that a user can meet and what they say. It never prints them.
"""

from __future__ import annotations

from moiety.model.errors.agents import (
    AgentAlreadyRunning,
    AgentBusy,
    AgentError,
    AgentNotYours,
    AgentSilent,
    AgentStopping,
    AgentVersion,
    BadAgentDirectory,
    BadRequest,
    ContainerShareInUse,
    ContainerShareUnknown,
    MetricsRefused,
    NoAgent,
    NotAllowed,
    StillRunning,
    TooMany,
    UserUnknown,
    WorkloadAmbiguous,
    WorkloadUnknown,
)
from moiety.model.errors.amounts import (
    AmountError,
    ArenaAboveHost,
    CapacityAboveGpu,
    CapacityMismatch,
    LimitAboveCapacity,
    MemoryAboveGpu,
    ShareTaken,
    UserLimit,
)
from moiety.model.errors.base import ExitCode, MoietyError, from_parts
from moiety.model.errors.cluster import ClusterRefusal, PodRefusal
from moiety.model.errors.files import (
    BadConfigFile,
    BadSetting,
    ConfigError,
    FileError,
    FileExists,
    FileNotWritable,
    RecordingInvalid,
    RecordingMissing,
    ScenarioInvalid,
    TraceInvalid,
    TraceMissing,
)
from moiety.model.errors.gpus import DriverTooOld, GpuError, GpuOwned, GpusDrained, NoDriver, NoGpu
from moiety.model.errors.installation import (
    ArraysMissing,
    InstallationError,
    InternalError,
    NativeLibraryMissing,
    PlotMissing,
    ProtocolError,
    ScreenMissing,
    SystemRefusal,
    YamlMissing,
)
from moiety.model.errors.pool import (
    NoPool,
    PoolAccountUnusable,
    PoolError,
    PoolFileInvalid,
    PoolMissing,
    PoolPromises,
    PoolRunning,
    PoolSilent,
    ProjectUnknown,
    StarterGone,
    StoreBroken,
    StoreNewer,
    TooManyWatchers,
    TooMuchWaiting,
    WorkAmbiguous,
    WorkStateWrong,
    WorkUnknown,
)
from moiety.model.errors.programs import (
    ImageUnfit,
    MuslProgram,
    ProgramError,
    ProgramNotExecutable,
    ProgramNotFound,
    SecureProgram,
    StaticProgram,
    ToolRefused,
    WrongArchitecture,
)
from moiety.model.errors.values import (
    BadArgument,
    InvalidDuration,
    InvalidFraction,
    InvalidGang,
    InvalidMode,
    InvalidPriority,
    InvalidSize,
    InvalidValue,
    KeptManaged,
    LimitAboveGpu,
    LimitTooSmall,
    MemoryAboveLimit,
    RequestAboveLimit,
)

__all__ = [
    "AgentAlreadyRunning",
    "AgentBusy",
    "AgentError",
    "AgentNotYours",
    "AgentSilent",
    "AgentStopping",
    "AgentVersion",
    "AmountError",
    "ArenaAboveHost",
    "ArraysMissing",
    "BadAgentDirectory",
    "BadArgument",
    "BadConfigFile",
    "BadRequest",
    "BadSetting",
    "CapacityAboveGpu",
    "CapacityMismatch",
    "ClusterRefusal",
    "ConfigError",
    "ContainerShareInUse",
    "ContainerShareUnknown",
    "DriverTooOld",
    "ExitCode",
    "FileError",
    "FileExists",
    "FileNotWritable",
    "GpuError",
    "GpuOwned",
    "GpusDrained",
    "ImageUnfit",
    "InstallationError",
    "InternalError",
    "InvalidDuration",
    "InvalidFraction",
    "InvalidGang",
    "InvalidMode",
    "InvalidPriority",
    "InvalidSize",
    "InvalidValue",
    "KeptManaged",
    "LimitAboveCapacity",
    "LimitAboveGpu",
    "LimitTooSmall",
    "MemoryAboveGpu",
    "MemoryAboveLimit",
    "MetricsRefused",
    "MoietyError",
    "MuslProgram",
    "NativeLibraryMissing",
    "NoAgent",
    "NoDriver",
    "NoGpu",
    "NoPool",
    "NotAllowed",
    "PlotMissing",
    "PodRefusal",
    "PoolAccountUnusable",
    "PoolError",
    "PoolFileInvalid",
    "PoolMissing",
    "PoolPromises",
    "PoolRunning",
    "PoolSilent",
    "ProgramError",
    "ProgramNotExecutable",
    "ProgramNotFound",
    "ProjectUnknown",
    "ProtocolError",
    "RecordingInvalid",
    "RecordingMissing",
    "RequestAboveLimit",
    "ScenarioInvalid",
    "ScreenMissing",
    "SecureProgram",
    "ShareTaken",
    "StarterGone",
    "StaticProgram",
    "StillRunning",
    "StoreBroken",
    "StoreNewer",
    "SystemRefusal",
    "TooMany",
    "TooManyWatchers",
    "TooMuchWaiting",
    "ToolRefused",
    "TraceInvalid",
    "TraceMissing",
    "UserLimit",
    "UserUnknown",
    "WorkAmbiguous",
    "WorkStateWrong",
    "WorkUnknown",
    "WorkloadAmbiguous",
    "WorkloadUnknown",
    "WrongArchitecture",
    "YamlMissing",
    "from_parts",
]
