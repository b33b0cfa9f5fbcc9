/* The bytes that the shim (C) and the agent (Python) share.
 *
 * This file, gpus.h, host.h, pages.h and fields.txt (what bounds each field) are the only source of the protocol. From them
 * tools/wire.py makes src/moiety/wire/layout.py, src/moiety/wire/messages.py and the tables of docs/reference-protocol.md;
 * a test compares these, and another test compares every size and offset with what a compiler makes of the headers.
 *
 * Transport: each process has one AF_UNIX SOCK_SEQPACKET connection. One packet is one message and begins with struct
 * mw_header. All integers are little endian. Structs are naturally aligned without hidden padding. Unused bytes are 0.
 *
 * Compatibility: mw_header, mw_hello up to `version`, and mw_refused keep their layout in every version. Two programs
 * of different versions can therefore name their versions to each other. The version of moiety itself does not matter.
 * An agent serves clients of its own version of the protocol and of the one before, so that it can be upgraded while
 * programs run: the next version may add messages and flags, and the agent sends them only to clients of that version.
 * A message that changes its layout gets a new type, and the old one is understood for one version more. A message to
 * clients may get fields at its end, where 0 means what was meant without them: a client takes as much as it knows.
 * mw_welcome names the version of the conversation, which is the client's. A client whose agent refuses MW_GPUS_QUERY
 * hides no GPU.
 *
 * Terms: a client is one process with the shim in it. A GPU is named by the index that the agent gave it in
 * MW_ATTACHED. Form: the comment of a message type says the direction (> client to agent, < agent to client), the
 * struct that carries it, and its meaning. Flags stand below a comment `mw_STRUCT.flags`. */
#ifndef MOIETY_WIRE_H
#define MOIETY_WIRE_H

#include <stdint.h>

#include "wire/pages.h"

#define MW_MAGIC 0x5459494du /* "MIYT" as bytes on the wire */
#define MW_VERSION 1u
#define MW_VERSION_LEAST 1u /* the oldest that an agent serves: MW_VERSION - 1, but at least 1 */
#define MW_NAME_BYTES 64u   /* names are UTF-8, cut and padded with zeros */
#define MW_TEXT_BYTES 240u  /* a sentence for a person */
#define MW_UUID_BYTES 16u   /* of a GPU */
#define MW_TOKEN_BYTES 32u  /* random; a client that knows a token may open the memory behind it */
#define MW_PIECES_MAX 8u    /* pieces of exported memory, with their descriptors, in a message */
#define MW_GPUS_MAX 32u     /* GPUs of one node that a client may attach */
#define MW_NO_GPU 0xffffffffu /* in place of a GPU's index */
#define MW_UNKNOWN_MAX 32u    /* names of unknown entry points that a client reports */

enum mw_type {
    /* > mw_hello: the first message; carries the counters' memfd */
    MW_HELLO = 1,
    /* < mw_welcome: the answer to MW_HELLO; carries the lease page's memfd */
    MW_WELCOME = 2,
    /* < mw_refused: the request with the same serial is refused */
    MW_REFUSED = 3,
    /* > mw_attach: the client is about to create its first context on a GPU */
    MW_ATTACH = 4,
    /* < mw_attached: there is memory for the context */
    MW_ATTACHED = 5,
    /* > mw_amount: the context exists; the driver lost this many free bytes by it */
    MW_CONTEXT = 6,
    /* > mw_amount: the last context on that GPU is destroyed, with its memory */
    MW_DETACH = 7,
    /* > mw_alloc: may this many more bytes be allocated? */
    MW_ALLOC_REQUEST = 8,
    /* < mw_amount: yes, and there is room for them */
    MW_ALLOC_REPLY = 9,
    /* > mw_free: bytes were freed */
    MW_FREE = 10,
    /* > mw_lease_note: a thread waits at the closed gate */
    MW_LEASE_REQUEST = 11,
    /* < mw_amount: this many more bytes may be made resident */
    MW_RESTORE_BUDGET = 12,
    /* > mw_lease_note: every byte is resident */
    MW_RESTORED = 13,
    /* < mw_lease_note: the lease word is open */
    MW_GRANT = 14,
    /* < mw_lease_note: the lease word is closed; the client drains */
    MW_REVOKE = 15,
    /* > mw_amount: the bytes that are resident now on one GPU */
    MW_RESIDENT = 16,
    /* > mw_drained: no work of the client runs any more; follows MW_RESIDENT for other GPUs */
    MW_DRAINED = 17,
    /* < mw_amount: evict this many bytes */
    MW_EVICT = 18,
    /* > mw_evicted: this many bytes were evicted; a flag marks the last of one order */
    MW_EVICTED = 19,
    /* < mw_idle_timeout: report when nothing was submitted for this long; 0 ends it */
    MW_SET_IDLE_TIMEOUT = 20,
    /* > mw_lease_note: nothing was submitted for the idle timeout */
    MW_IDLE = 21,
    /* > mw_pinned: from now on no byte of this client can leave; it happened without a request */
    MW_PINNED = 22,
    /* > mw_attach: what is the limit on this GPU? Nothing is reserved */
    MW_LIMIT_QUERY = 23,
    /* < mw_queue_depth: keep at most this much unfinished work submitted; 0: any amount */
    MW_SET_QUEUE_DEPTH = 24,
    /* < mw_arena: a segment of host memory for evicted bytes, with its memfd, or none is to be had
     * > a resumed client has this segment of an earlier agent mapped */
    MW_ARENA = 25,
    /* > mw_arena: this segment is unmapped; with number 0: that was the last
     * < unmap empty segments, up to this many bytes */
    MW_ARENA_BACK = 26,
    /* > mw_arena: an eviction needs this many more bytes; answered by MW_ARENA */
    MW_ARENA_NEED = 27,
    /* > mw_lease_note: after MW_IDLE, work was submitted again; the idle timeout is over */
    MW_BUSY = 28,
    /* < mw_mode: how memory is allocated from now on */
    MW_MODE = 29,
    /* < mw_amount: from now on the client may allocate at most this much on one GPU */
    MW_LIMIT = 30,
    /* > mw_alloc: the driver ran out of memory by itself; make this much room */
    MW_DRIVER_OOM = 31,
    /* > mw_pin: may this many allocated bytes stay on the GPU from now on? */
    MW_PIN_REQUEST = 34,
    /* > mw_share: other processes may open this memory by its token; answered by the same message
     * < a process wants to open it (MW_SHARE_ASKED): send what is behind the token */
    MW_EXPORT = 35,
    /* > mw_share: (MW_SHARE_ASKED) what is behind this token?
     * > < some pieces of it, with their descriptors; with 0 pieces: nothing
     * > (MW_SHARE_HELD) a resumed client has it open */
    MW_IMPORT = 36,
    /* > mw_share: the token is void (from its exporter), or was closed (from a client that had it open)
     * < no process has it open any more: the memory can leave until one asks for it again */
    MW_UNSHARE = 37,
    /* < mw_lease_note: let one thread pass the closed gate for one call, and drain again */
    MW_ALLOW_ONE = 38,
    /* > mw_shared: other processes may use memory of this one, or this one uses theirs */
    MW_SHARED = 39,
    /* > mw_unknown: the program used an entry point that the shim does not know */
    MW_UNKNOWN = 40,
    /* < mw_limit_reply: the answer to MW_LIMIT_QUERY from a client without a hello; the last message */
    MW_LIMIT_REPLY = 41,
    /* < mw_credit: this many more bytes may be allocated without a request, until MW_CREDIT_REVOKE */
    MW_CREDIT_GRANT = 42,
    /* < mw_amount: give the credit on a GPU back; answered by MW_CREDIT_RETURNED */
    MW_CREDIT_REVOKE = 43,
    /* > mw_free: bytes of the credit were allocated */
    MW_CREDIT_USED = 44,
    /* > mw_amount: the credit is over, revoked or not, and had this many bytes left */
    MW_CREDIT_RETURNED = 45,
    /* < mw_amount: yes: they never leave, until MW_UNPIN or MW_FREE */
    MW_PIN_REPLY = 46,
    /* > mw_amount: this many pinned bytes can leave again; MW_NO_GPU: all that mw_pin named so */
    MW_UNPIN = 47,
    /* < mw_warning: a sentence for the person who uses the program */
    MW_WARNING = 52,
    /* < mw_terminal_line: a line for the terminal of the program */
    MW_TERMINAL_LINE = 55,
    /* > mw_gpus_query: which GPUs is the workload a share of? They do not change any more; asked without a hello */
    MW_GPUS_QUERY = 56,
    /* < mw_gpus: the answer to MW_GPUS_QUERY; the last message */
    MW_GPUS = 57,
    /* < mw_amount: what of the bytes on a GPU is zeros? Only to a client without a lease */
    MW_CONTENT_QUERY = 60,
    /* > mw_content: the answer to MW_CONTENT_QUERY */
    MW_CONTENT_REPLY = 61,
};

/* mw_welcome.flags */
#define MW_WELCOME_ARENA 1u     /* the agent prepares host memory: MW_ARENA_NEED asks for it */
#define MW_WELCOME_ZERO_FILL 2u /* new memory is set to zeros */

/* mw_hello.flags */
#define MW_HELLO_RESUMED 1u /* the client had an agent before; MW_ATTACH brings its state */
#define MW_HELLO_HOLDING 2u /* it holds a lease now: the word must be open in the new page */
#define MW_HELLO_PINNED 4u  /* it is pinned */
#define MW_HELLO_TALKS 8u   /* a person sits before it and wants to know why it stands still */

/* mw_alloc.flags */
#define MW_ALLOC_PINNED 1u  /* these bytes can never leave: residue */
#define MW_ALLOC_MANAGED 2u /* the driver pages them: none is resident without a lease */

/* mw_free.flags */
#define MW_FREE_TO_CREDIT 4u /* MW_FREE: the bytes return to the credit; all were resident */
#define MW_FREE_DAMAGED 8u   /* MW_FREE: they were damaged in host memory, and are lost */

/* mw_share.flags */
#define MW_SHARE_ASKED 1u /* the sender wants what is behind the token */
#define MW_SHARE_HELD 2u  /* the sender has it open */
#define MW_SHARE_GONE 4u  /* MW_UNSHARE: the exporter has also given the memory back */

/* mw_evicted.flags */
#define MW_EVICTED_LAST 1u   /* the order is carried out as far as it can be */
#define MW_EVICTED_FAILED 2u /* host memory or the driver refused: fewer bytes than ordered */

/* mw_shared.flags */
#define MW_SHARED_EXPORTED 1u /* other processes may use memory of this one */
#define MW_SHARED_IMPORTED 2u /* this process uses memory of others */

/* Why a request is refused. */
enum mw_refusal {
    MW_REFUSAL_VERSION = 1,  /* the other side speaks another version */
    MW_REFUSAL_PROTOCOL = 2, /* the message makes no sense here */
    MW_REFUSAL_LIMIT = 3,    /* above the tenant's memory limit */
    MW_REFUSAL_CAPACITY = 4, /* neither the GPU nor host memory can hold it */
    MW_REFUSAL_GPU = 5,      /* there is no such GPU here, or not for this workload */
    MW_REFUSAL_STOPPING = 6, /* the agent shuts down */
    MW_REFUSAL_FULL = 7,     /* this user has, or sends, as much as one user may */
};

/* How a process allocates memory. */
enum mw_memory_mode {
    MW_MEMORY_SWAP = 0,    /* in chunks that the shim moves */
    MW_MEMORY_MANAGED = 1, /* as managed memory, which the driver pages on faults */
};

/* The start of every message. */
struct mw_header {
    uint16_t type;   /* enum mw_type */
    uint16_t bytes;  /* of the whole message, this header included */
    uint32_t serial; /* a reply repeats the request's; 0 where no reply is due */
};

/* A process introduces itself, and carries the memfd of its counters. */
struct mw_hello {
    struct mw_header header;
    uint32_t magic;
    uint16_t version;
    uint16_t flags;
    uint32_t pid;   /* as the client sees itself; for messages only, never for identity */
    uint32_t epoch; /* of the last lease, when resumed */
    char program[MW_NAME_BYTES];
};

/* The agent answers, and carries the memfd of the lease page. */
struct mw_welcome {
    struct mw_header header;
    uint32_t version;
    uint32_t tenant; /* the agent's number for this process */
    uint32_t epoch;  /* of the lease page as it is now */
    uint32_t mode;   /* enum mw_memory_mode */
    uint32_t flags;
};

/* A request is refused, and why. */
struct mw_refused {
    struct mw_header header;
    uint32_t code;    /* enum mw_refusal */
    uint32_t version; /* the sender's MW_VERSION */
    char text[MW_TEXT_BYTES];
};

/* A process is about to create its first context on a GPU, or asks for its limit there. */
struct mw_attach {
    struct mw_header header;
    uint8_t uuid[MW_UUID_BYTES]; /* cuDeviceGetUuid */
    uint64_t total_bytes;        /* cuDeviceTotalMem of the real driver */
    uint64_t allocated_bytes;    /* 0 unless resumed */
    uint64_t resident_bytes;     /* 0 unless resumed */
    uint64_t pinned_bytes;       /* part of both, 0 unless resumed */
    uint64_t managed_bytes;      /* part of the allocated ones, 0 unless resumed */
};

/* There is memory for the context. */
struct mw_attached {
    struct mw_header header;
    uint32_t gpu;
    uint32_t together;     /* 1: the limit holds for all processes of its workload together */
    uint64_t limit_bytes;  /* the most it may allocate: what cuDeviceTotalMem reports */
    uint64_t chunk_bytes;  /* the largest chunk to back allocations with */
    uint64_t others_bytes; /* of that limit: what the others have allocated now */
};

/* The limit of a workload on a GPU, and what all of its processes allocated there. */
struct mw_limit_reply {
    struct mw_header header;
    uint32_t gpu;
    uint32_t reserved;
    uint64_t limit_bytes; /* as in mw_attached */
    uint64_t used_bytes;  /* allocated by all its processes */
};

/* A number of bytes on one GPU; the type says which bytes. */
struct mw_amount {
    struct mw_header header;
    uint32_t gpu;
    uint32_t reserved;
    uint64_t bytes; /* MW_CONTEXT: free bytes the driver lost by it; MW_DETACH: 0 */
};

/* More bytes are wanted: by the program, or (MW_DRIVER_OOM) by the driver itself. */
struct mw_alloc {
    struct mw_header header;
    uint32_t gpu;
    uint32_t flags;
    uint64_t bytes;
};

/* Bytes were freed, or (MW_CREDIT_USED) allocated from the credit. */
struct mw_free {
    struct mw_header header;
    uint32_t gpu;
    uint32_t flags;          /* MW_ALLOC_*: the kind of the freed bytes; MW_FREE_* */
    uint64_t bytes;          /* as asked for by MW_ALLOC_REQUEST */
    uint64_t resident_bytes; /* of these; MW_FREE_TO_CREDIT: spare now; MW_CREDIT_USED: no more */
};

/* This many more bytes may be allocated without a request. A credit counts as allocated and
 * resident while it lasts. It ends when it was not used for a moment, and before MW_DRAINED. */
struct mw_credit {
    struct mw_header header;
    uint32_t gpu;
    uint32_t reserved;
    uint64_t bytes;      /* added to the credit */
    uint64_t most_bytes; /* up to this size, freed bytes may return to the credit */
};

/* Bytes were evicted to host memory. */
struct mw_evicted {
    struct mw_header header;
    uint32_t gpu;
    uint32_t flags;
    uint64_t bytes;          /* moved out since the last MW_EVICTED */
    uint64_t resident_bytes; /* that are left on the GPU */
};

/* A note about the lease with this epoch; the type says which. */
struct mw_lease_note {
    struct mw_header header;
    uint32_t epoch; /* MW_LEASE_REQUEST: 0 */
    uint32_t reserved;
};

/* No work of the process runs any more. It carries the last GPU's resident bytes: a successor waits for one message. */
struct mw_drained {
    struct mw_header header;
    uint32_t epoch;
    uint32_t gpu; /* or MW_NO_GPU */
    uint64_t resident_bytes;
};

/* Report when nothing was submitted for this long; 0 ends it. */
struct mw_idle_timeout {
    struct mw_header header;
    uint64_t idle_us;
};

/* Keep at most this much unfinished work submitted; 0: any amount, as a new connection has. */
struct mw_queue_depth {
    struct mw_header header;
    uint64_t queue_us; /* of GPU time, on each GPU */
};

/* No byte of this process can leave any more. */
struct mw_pinned {
    struct mw_header header;
    char reason[MW_NAME_BYTES]; /* the call that pinned, e.g. cuIpcGetMemHandle */
};

/* Bytes are to stay on the GPU, because others than this process will use them. */
struct mw_pin {
    struct mw_header header;
    uint32_t gpu; /* MW_NO_GPU: all that the process has and gets, on every GPU */
    uint32_t reserved;
    uint64_t bytes;           /* 0 with MW_NO_GPU */
    char call[MW_NAME_BYTES]; /* the call that pins them, e.g. cuIpcGetMemHandle */
};

/* A line for the terminal of a program; only for clients that said MW_HELLO_TALKS. */
struct mw_terminal_line {
    struct mw_header header;
    char text[MW_TEXT_BYTES];
};

/* The program used an entry point that the shim does not know, twice as often as last. */
struct mw_unknown {
    struct mw_header header;
    uint64_t calls;           /* so far */
    char name[MW_NAME_BYTES]; /* of the entry point, or "export table " and its UUID */
};

/* How memory is allocated from now on. */
struct mw_mode {
    struct mw_header header;
    uint32_t mode; /* enum mw_memory_mode */
    uint32_t reserved;
};

/* Other processes may use memory of this one, or this one uses theirs. */
struct mw_shared {
    struct mw_header header;
    uint32_t flags;
    uint32_t reserved;
};

/* A sentence for the person who reads the stderr of the program. */
struct mw_warning {
    struct mw_header header;
    char text[MW_TEXT_BYTES];
};

/* Memory that one client exports and others open, as legacy CUDA IPC does; the type says which. It comes in
 * pieces of one size (the last may be smaller), each with a descriptor, several in one message. */
struct mw_share {
    struct mw_header header;
    uint8_t token[MW_TOKEN_BYTES];
    uint32_t gpu;
    uint32_t flags;
    uint64_t bytes;       /* of all pieces */
    uint64_t piece_bytes; /* of one */
    uint64_t offset;      /* of the export within the pieces */
    uint32_t first;       /* the first piece in this message, counted from 0 */
    uint32_t pieces;      /* in this message */
};

#endif
