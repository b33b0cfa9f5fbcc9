/* What Python (src/moiety/agent/core/native_reader.py) shares with this library. A test compares the sizes. */
#ifndef MOIETY_AGENT_ABI_H
#define MOIETY_AGENT_ABI_H

#include <stdint.h>

#define MA_PACKET_BYTES 4096u /* a longer packet is cut, and refused by its size */
#define MA_FDS_MAX 253u       /* descriptors of one packet (SCM_MAX_FD) */
#define MA_PACKETS_A_TURN 64u /* packets of one connection in a row, and unread ones of one user */
#define MA_FDS_A_PACKET 8u    /* each 8 descriptors count as one packet more */

enum ma_kind {
    MA_PACKET = 0, /* one packet, with its descriptors */
    MA_END = 1,    /* the other side closed the connection (error 0), or it cannot be read */
};

/* ma_record.flags */
#define MA_BURST \
    1u /* a whole turn was read in a row: nothing more is read before moiety_agent_resume */
#define MA_FIRED 2u /* the packet fired the armed transition: the lease word is changed */
#define MA_SENT 4u  /* and the note about it is sent */
#define MA_ASKED \
    8u /* who has to drain asked for its next lease meanwhile: what was armed stayed so */

/* What the thread read; the packet follows, then the descriptors, each 4 bytes. */
struct ma_record {
    uint64_t key;   /* of the connection */
    uint64_t at_ns; /* CLOCK_MONOTONIC, when it was read */
    uint32_t kind;  /* enum ma_kind */
    uint32_t bytes; /* of the packet */
    uint32_t fds;   /* number of its descriptors */
    uint32_t flags;
    int32_t error; /* errno of MA_END; 0: closed */
    uint32_t user; /* the reader's own */
    uint32_t shot; /* MA_FIRED: which one, as they were armed */
    uint32_t reserved;
};

/* A transition that the arbiter decided ahead: this message changes that lease word, and sends that note. */
struct ma_shot {
    uint64_t from;       /* the connection whose message fires it */
    uint64_t to;         /* the connection that gets the note */
    uint32_t *word;      /* the lease word of `to` */
    uint32_t expected;   /* it has this value, or nothing happens */
    uint32_t wanted;     /* and gets this one */
    uint32_t type;       /* of the message: MW_DRAINED, MW_LEASE_REQUEST or MW_IDLE */
    uint32_t epoch;      /* of MW_DRAINED and MW_IDLE */
    uint32_t gpus;       /* MW_DRAINED: the GPUs that it may name, one bit each, beside MW_NO_GPU */
    uint32_t note;       /* MW_GRANT or MW_REVOKE */
    uint32_t note_epoch; /* of the note */
    uint32_t next;       /* the index of the one that is armed once this one fired; 0: none */
    int64_t not_before_ns; /* CLOCK_MONOTONIC: the message comes no earlier */
    int64_t not_after_ns;  /* and no later */
    int64_t
        asks_until_ns; /* MW_DRAINED: until then, `from` may ask once for its next lease first, and nothing is next */
};

/* What became of the messages of programs that can change a lease: they ask, drain or are silent. */
struct ma_counts {
    uint64_t fired;
    uint64_t asked;   /* MA_ASKED */
    uint64_t unread;  /* nothing was armed while Python had not read what came before */
    uint64_t unarmed; /* nothing was armed, and nothing came before */
    uint64_t
        other; /* armed was another message, or this one at another time, or there was no room for a note */
};

/* What moiety_agent_disarm found. */
enum ma_armed {
    MA_IDLE = 0,  /* nothing was armed */
    MA_ARMED = 1, /* it is not armed any more */
    MA_SHOT = 2,  /* one fired, or MA_ASKED: that is among the first in the ring, before all else */
    MA_SHOTS = 3, /* and at least its next one fired, too */
};

#endif
