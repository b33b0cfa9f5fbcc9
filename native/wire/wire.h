/* The bytes that the shim (C) and the agent (Python) share.
 *
 * This file is the only truth about them: src/moiety/wire repeats every type here
 * and tests/unit/wire compares each size and offset with what a compiler makes of
 * this header.
 *
 * Transport: one AF_UNIX SOCK_SEQPACKET connection for each process. One packet is
 * one message; it begins with struct mw_header. All integers are little endian, all
 * structs are naturally aligned without hidden padding. Unused bytes are zero.
 *
 * Compatibility: mw_header, mw_hello up to `version`, and mw_refused keep their
 * layout in every version, so that two programs of different versions can still tell
 * each other so in a sentence.
 *
 * Vocabulary: a client is one process with the shim in it; a GPU is named by the
 * index that the agent gave it in MW_ATTACHED.
 */
#ifndef MOIETY_WIRE_H
#define MOIETY_WIRE_H

#include <stdint.h>

#define MW_MAGIC 0x5459494du /* "MIYT" as bytes on the wire */
#define MW_VERSION 1u
#define MW_NAME_BYTES 64u  /* names are UTF-8, cut and zero padded */
#define MW_TEXT_BYTES 240u /* a sentence for a human */
#define MW_UUID_BYTES 16u
#define MW_TOKEN_BYTES 32u    /* random: who knows one may open what is behind it */
#define MW_PIECES_MAX 8u      /* with their descriptors in one message */
#define MW_GPUS_MAX 32u       /* GPUs of one node that a client may attach */
#define MW_NO_GPU 0xffffffffu /* instead of one of those */
#define MW_UNKNOWN_MAX 32u    /* names of entry points that a client tells of */
#define MW_SLOTS_MAX 1024u    /* threads of one process inside the gate */
#define MW_LEASE_BYTES 4096u  /* size of the lease page's memfd */

/* Direction in the comment: > client to agent, < agent to client. */
enum mw_type {
    MW_HELLO = 1,     /* > first message; carries the counters' memfd */
    MW_WELCOME = 2,   /* < answer; carries the lease page's memfd */
    MW_REFUSED = 3,   /* < a refusal of the message with the same serial */
    MW_ATTACH = 4,    /* > before the first context on a GPU is created */
    MW_ATTACHED = 5,  /* < room for the context is there */
    MW_CONTEXT = 6,   /* > the context exists */
    MW_DETACH = 7,    /* > the last context on that GPU is gone, with its memory */
    MW_ALLOC_REQUEST = 8,     /* > may this many bytes more be allocated? */
    MW_ALLOC_REPLY = 9, /* < yes, and there is room for them */
    MW_FREE = 10,     /* > bytes were freed */
    MW_LEASE_REQUEST = 11,     /* > a thread stands at the closed gate */
    MW_RESTORE_BUDGET = 12,     /* < this many bytes more may be made resident */
    MW_RESTORED = 13, /* > every byte is resident */
    MW_GRANT = 14,    /* < the lease word is open */
    MW_REVOKE = 15,   /* < the lease word is closed: drain */
    MW_RESIDENT = 16, /* > how much is resident now on one GPU */
    MW_DRAINED = 17,  /* > nothing of ours runs any more (follows MW_RESIDENT for others) */
    MW_EVICT = 18,    /* < move out this many bytes */
    MW_EVICTED = 19,  /* > moved out so many; the flag tells the last of one order */
    MW_SET_IDLE_TIMEOUT = 20,    /* < tell when nothing was submitted for so long; 0 = stop */
    MW_IDLE = 21,     /* > nothing was submitted for so long */
    MW_PINNED = 22,   /* > from now on nothing of this client can leave */
    MW_LIMIT_QUERY = 23,   /* > struct mw_attach: tell this GPU's limit (MW_ATTACHED), reserve nothing */
    MW_SET_QUEUE_DEPTH = 24,     /* < keep no more than so much unfinished work submitted; 0 = any amount */
    MW_ARENA = 25,    /* < host memory for evicted bytes; carries its memfd, or: there is none */
                      /* > a resumed client has this segment of an earlier agent mapped */
    MW_ARENA_BACK = 26, /* > this segment is unmapped again; with number 0: that was all */
                        /* < unmap what is empty, up to so many bytes */
    MW_ARENA_NEED = 27, /* > an order needs so many bytes more: answered by MW_ARENA */
    MW_BUSY = 28,       /* > after MW_IDLE: something was submitted again; this ends the watch */
    MW_MODE = 29,       /* < how memory is allocated from now on */
    MW_LIMIT = 30,      /* < from now on it may allocate no more than this on one GPU */
    MW_DRIVER_OOM = 31,       /* > struct mw_alloc: the driver ran out by itself; make this much room */
    MW_PIN_BYTES = 34,       /* > so many bytes that were allocated never leave from now on */
    MW_EXPORT = 35,  /* > other processes may open this memory by its token; answered by the same */
                     /* < one wants to (MW_SHARE_ASKED): send what is behind the token */
    MW_IMPORT = 36,  /* > (MW_SHARE_ASKED) what is behind a token? */
                     /* > < some pieces of it, with their descriptors; with 0 pieces: nothing */
                     /* > (MW_SHARE_HELD) a resumed client has it open */
    MW_UNSHARE = 37, /* > the token is void (its exporter), or was closed (who had it open) */
    MW_ALLOW_ONE = 38,    /* < let one thread at the closed gate pass it for one call, and drain again */
    MW_SHARED = 39,  /* > other processes may use memory of this one, or this one uses theirs */
    MW_UNKNOWN = 40, /* > something of the driver was used that the shim does not know */
    MW_LIMIT_REPLY = 41,  /* < answer to MW_LIMIT_QUERY from whoever said no hello, and the last word */
    MW_CREDIT_GRANT = 42, /* < so many bytes more may be allocated without asking, until MW_CREDIT_REVOKE */
    MW_CREDIT_REVOKE = 43,    /* < give the allowance on a GPU back: answered by MW_CREDIT_RETURNED */
    MW_CREDIT_USED = 44,     /* > bytes of the allowance were allocated */
    MW_CREDIT_RETURNED = 45,  /* > the allowance is over, asked for or not, and had so much left */
    MW_WARNING = 52,   /* < a sentence for the person in front of the program */
    MW_TERMINAL_LINE = 55,       /* < a line for whoever sits before the program */
};

/* mw_welcome.flags */
#define MW_WELCOME_ARENA 1u /* the agent prepares host memory: MW_ARENA_NEED asks for it */

/* mw_hello.flags */
#define MW_HELLO_RESUMED 1u /* the client had an agent before; MW_ATTACH brings its state */
#define MW_HELLO_HOLDING 2u /* and holds a lease now: the word must be open in the new page */
#define MW_HELLO_PINNED 4u  /* and is pinned */
#define MW_HELLO_TALKS 8u   /* somebody sits before it, who wants to know why it stands still */

/* mw_alloc.flags */
#define MW_ALLOC_PINNED 1u  /* these bytes can never leave: residue */
#define MW_ALLOC_MANAGED 2u /* the driver pages them: none is resident without a lease */

/* mw_free.flags, besides those of the bytes' kind */
#define MW_FREE_TO_CREDIT 4u /* MW_FREE: they are part of the allowance again, all were resident */

/* mw_share.flags */
#define MW_SHARE_ASKED 1u
#define MW_SHARE_HELD 2u
#define MW_SHARE_GONE 4u /* MW_UNSHARE: and the exporter has given the memory back */

/* mw_evicted.flags */
#define MW_EVICTED_LAST 1u   /* the order is carried out as far as it can be */
#define MW_EVICTED_FAILED 2u /* host memory or the driver refused: fewer bytes than asked */

/* mw_shared.flags */
#define MW_SHARED_EXPORTED 1u
#define MW_SHARED_IMPORTED 2u

/* mw_refused.code */
enum mw_refusal {
    MW_REFUSAL_VERSION = 1,  /* the other side speaks another version */
    MW_REFUSAL_PROTOCOL = 2, /* a message that makes no sense here */
    MW_REFUSAL_LIMIT = 3,    /* above the tenant's memory limit */
    MW_REFUSAL_CAPACITY = 4, /* neither the GPU nor host memory can hold it */
    MW_REFUSAL_GPU = 5,      /* no such GPU here, or not for this workload */
    MW_REFUSAL_STOPPING = 6, /* the agent is shutting down */
    MW_REFUSAL_FULL = 7,     /* this user has, or sends, as much as one may */
};

/* mw_welcome.mode, mw_mode.mode: how a process allocates */
enum mw_memory_mode {
    MW_MEMORY_SWAP = 0,    /* in chunks that the shim moves */
    MW_MEMORY_MANAGED = 1, /* as managed memory, which the driver pages on faults */
};

struct mw_header {
    uint16_t type;   /* enum mw_type */
    uint16_t bytes;  /* of the whole message, this header included */
    uint32_t serial; /* a reply repeats the request's; 0 where no reply is due */
};

struct mw_hello {
    struct mw_header header;
    uint32_t magic;
    uint16_t version;
    uint16_t flags;
    uint32_t pid;   /* as the client sees itself; for messages only, never for identity */
    uint32_t epoch; /* of the last lease, when resumed */
    char program[MW_NAME_BYTES];
};

struct mw_welcome {
    struct mw_header header;
    uint32_t version;
    uint32_t tenant; /* the agent's number for this process */
    uint32_t epoch;  /* of the lease page as it is now */
    uint32_t mode;   /* enum mw_memory_mode */
    uint32_t flags;
};

struct mw_refused {
    struct mw_header header;
    uint32_t code;    /* enum mw_refusal */
    uint32_t version; /* the sender's MW_VERSION */
    char text[MW_TEXT_BYTES];
};

struct mw_attach {
    struct mw_header header;
    uint8_t uuid[MW_UUID_BYTES]; /* cuDeviceGetUuid */
    uint64_t total_bytes;        /* cuDeviceTotalMem of the real driver */
    uint64_t allocated_bytes;    /* 0 unless resumed */
    uint64_t resident_bytes;     /* 0 unless resumed */
    uint64_t pinned_bytes;       /* part of both, 0 unless resumed */
    uint64_t managed_bytes;      /* part of the allocated ones, 0 unless resumed */
};

struct mw_attached {
    struct mw_header header;
    uint32_t gpu;
    uint32_t reserved;
    uint64_t limit_bytes; /* the most it may allocate: what cuDeviceTotalMem reports */
    uint64_t chunk_bytes; /* the largest chunk to back allocations with */
};

/* What the workload has, whoever of it asks. */
struct mw_limit_reply {
    struct mw_header header;
    uint32_t gpu;
    uint32_t reserved;
    uint64_t limit_bytes; /* as in mw_attached */
    uint64_t used_bytes;  /* allocated by all its processes */
};

/* MW_CONTEXT, MW_DETACH, MW_RESTORE_BUDGET, MW_RESIDENT, MW_EVICT, MW_ALLOC_REPLY, MW_LIMIT, MW_PIN_BYTES, MW_CREDIT_REVOKE,
 * MW_CREDIT_RETURNED */
struct mw_amount {
    struct mw_header header;
    uint32_t gpu;
    uint32_t reserved;
    uint64_t bytes; /* MW_CONTEXT: free bytes the driver lost by it; MW_DETACH: 0 */
};

struct mw_alloc {
    struct mw_header header;
    uint32_t gpu;
    uint32_t flags;
    uint64_t bytes;
};

/* MW_FREE, MW_CREDIT_USED */
struct mw_free {
    struct mw_header header;
    uint32_t gpu;
    uint32_t flags;          /* MW_ALLOC_*: what kind of bytes was freed; MW_FREE_TO_CREDIT */
    uint64_t bytes;          /* as asked for by MW_ALLOC_REQUEST */
    uint64_t resident_bytes; /* those of them that were resident; MW_FREE_TO_CREDIT: that are spare,
                              * so still on the GPU; MW_CREDIT_USED: so much less is spare now */
};

/* An allowance counts as allocated and resident as long as it lasts. It is over when nobody used it for
 * a moment, and before MW_DRAINED. */
struct mw_credit {
    struct mw_header header;
    uint32_t gpu;
    uint32_t reserved;
    uint64_t bytes;      /* more than it was */
    uint64_t most_bytes; /* until there is so much of it, freed bytes may become part of it */
};

struct mw_evicted {
    struct mw_header header;
    uint32_t gpu;
    uint32_t flags;
    uint64_t bytes;          /* moved out since the last MW_EVICTED */
    uint64_t resident_bytes; /* what is left on the GPU */
};

/* MW_LEASE_REQUEST, MW_RESTORED, MW_GRANT, MW_REVOKE, MW_IDLE, MW_BUSY, MW_ALLOW_ONE */
struct mw_lease_note {
    struct mw_header header;
    uint32_t epoch; /* MW_LEASE_REQUEST: 0 */
    uint32_t reserved;
};

/* It tells of the last of its GPUs itself: who waits for it waits for one message. */
struct mw_drained {
    struct mw_header header;
    uint32_t epoch;
    uint32_t gpu; /* or MW_NO_GPU */
    uint64_t resident_bytes;
};

struct mw_idle_timeout {
    struct mw_header header;
    uint64_t idle_us;
};

/* A new conversation begins without a bound. */
struct mw_queue_depth {
    struct mw_header header;
    uint64_t queue_us; /* of GPU time, on each GPU */
};

/* MW_ARENA, MW_ARENA_BACK, MW_ARENA_NEED. A segment belongs to one client at a time, comes with
 * its pages present and zero, and keeps its number for as long as its agent lives. */
struct mw_arena {
    struct mw_header header;
    uint64_t segment; /* its number, or 0 */
    uint64_t bytes;   /* of the segment, or wanted; MW_ARENA < with 0: nothing can be had */
};

struct mw_pinned {
    struct mw_header header;
    char reason[MW_NAME_BYTES]; /* the call that pinned, e.g. cuIpcGetMemHandle */
};

/* Only to clients that said MW_HELLO_TALKS. */
struct mw_terminal_line {
    struct mw_header header;
    char text[MW_TEXT_BYTES];
};

/* Of one name at most as often as its count doubles, and of MW_UNKNOWN_MAX names. */
struct mw_unknown {
    struct mw_header header;
    uint64_t calls;           /* so far */
    char name[MW_NAME_BYTES]; /* of the entry point, or "export table " and its UUID */
};

struct mw_mode {
    struct mw_header header;
    uint32_t mode; /* enum mw_memory_mode */
    uint32_t reserved;
};

struct mw_shared {
    struct mw_header header;
    uint32_t flags;
    uint32_t reserved;
};

struct mw_warning {
    struct mw_header header;
    char text[MW_TEXT_BYTES];
};

/* Memory that one client exports and others open, as legacy CUDA IPC does. It comes in pieces of the
 * same size (the last may be smaller), each with a descriptor, several in one message. */
struct mw_share {
    struct mw_header header;
    uint8_t token[MW_TOKEN_BYTES];
    uint32_t gpu;
    uint32_t flags;
    uint64_t bytes;       /* of all pieces */
    uint64_t piece_bytes; /* of one */
    uint64_t offset;      /* where in them begins what was exported */
    uint32_t first;       /* the first piece in this message, counted from 0 */
    uint32_t pieces;      /* in this message */
};

/* The lease page: written by the agent alone, read by every gated call. */
struct mw_lease {
    uint32_t word; /* epoch << 1 | open */
    uint32_t reserved;
};
#define MW_LEASE_OPEN 1u

/* One for each thread that passed the gate; written by that thread alone. */
struct mw_slot {
    uint32_t depth;   /* calls of this thread that are inside the driver */
    uint32_t blocked; /* it waits inside a synchronising call */
    uint64_t passes;  /* gated calls so far */
    uint32_t tid;     /* 0: free */
    uint32_t reserved[11];
};

/* The counters' memfd: written by the client, read by the agent with pread. */
struct mw_counters {
    uint64_t handoffs;      /* leases granted */
    uint64_t drained_ns;    /* spent in draining */
    uint64_t evicted_bytes; /* copied to host memory */
    uint64_t evicted_ns;
    uint64_t restored_bytes;
    uint64_t restored_ns;
    uint64_t waited_ns;     /* threads at the closed gate, summed */
    uint64_t unknown_calls; /* calls of entry points that the shim does not know */
    uint64_t closed_passes; /* launches seen after a revoke was answered: always 0 */
    uint64_t zero_bytes;    /* left the GPU without being copied: they were zeros */
    uint64_t reserved[6];
    struct mw_slot slots[MW_SLOTS_MAX];
};

#endif
