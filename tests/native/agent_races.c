/* The agent's thread under a race detector:  agent_races SECONDS SEED
 *
 * This thread is Python's: it arms, disarms, takes, adds and removes in any order, and sees the time of a hold pass.
 * Two others are programs, which ask, drain, are silent and say nonsense. A note is sent for each word that changed, by the thread
 * or, as Python does, by this one. Prints how many transitions fired. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/reader.h"
#include "agent/ring.h"
#include "wire/wire.h"

#define HOLD_NS 100000u
#define FOR_EVER_NS INT64_MAX
#define SHOTS 4u
#define MUST(what)                                                  \
    if (!(what)) {                                                  \
        fprintf(stderr, "agent_races.c:%d: %s\n", __LINE__, #what); \
        exit(1);                                                    \
    }

struct program {
    int ours, theirs;
    uint64_t key;
    uint32_t word;
    unsigned seed;
};

static struct program holder, waiter;
static _Atomic bool stops;

static bool send_note(int fd, uint16_t type)
{
    struct mw_lease_note note = {.header = {.type = type, .bytes = sizeof note}};
    return send(fd, &note, sizeof note, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof note;
}

static void send_drained(int fd)
{
    struct mw_drained drained = {.header = {.type = MW_DRAINED, .bytes = sizeof drained},
                                 .gpu = MW_NO_GPU};
    (void)!send(fd, &drained, sizeof drained, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void *lives(void *argument)
{
    struct program *own = argument;
    char heard[256];
    while (!stops) {
        switch (rand_r(&own->seed) % 8) {
        case 0:
            send_drained(own->theirs);
            break;
        case 1:
            (void)!send(own->theirs, heard, 3, MSG_DONTWAIT | MSG_NOSIGNAL);
            break;
        case 2:
            usleep(200);
            break;
        case 3:
            send_note(own->theirs, MW_IDLE);
            send_drained(own->theirs);
            break;
        default:
            send_note(own->theirs, MW_LEASE_REQUEST);
            send_drained(holder.theirs);
        }
        while (recv(own->theirs, heard, sizeof heard, MSG_DONTWAIT) > 0) {
        }
    }
    return NULL;
}

static void begin(struct ma_reader *reader, struct program *one, uint32_t account)
{
    int pair[2];
    MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    one->ours = pair[0];
    one->theirs = pair[1];
    one->key = moiety_agent_add(reader, one->ours, account);
    MUST(one->key != 0);
}

/* As the arbiter decides it: the waiter asks, so the holder closes; that one drains, so the waiter opens. Then that one
 * is silent, so it closes, and drains; the holder opens. */
static void arm(struct ma_reader *reader)
{
    static const struct {
        struct program *from, *to;
        uint32_t type, note;
    } row[] = {
        {&waiter, &holder, MW_LEASE_REQUEST, MW_REVOKE},
        {&holder, &waiter, MW_DRAINED, MW_GRANT},
        {&waiter, &waiter, MW_IDLE, MW_REVOKE},
        {&waiter, &holder, MW_DRAINED, MW_GRANT},
    };
    struct ma_shot shots[SHOTS] = {0};
    for (uint32_t i = 0; i < SHOTS; i++) {
        bool opens = row[i].note == MW_GRANT;
        shots[i] = (struct ma_shot){.from = row[i].from->key,
                                    .to = row[i].to->key,
                                    .word = &row[i].to->word,
                                    .expected = !opens,
                                    .wanted = opens,
                                    .type = row[i].type,
                                    .gpus = 1,
                                    .note = row[i].note,
                                    .next = i + 1 < SHOTS ? i + 1 : 0,
                                    .not_after_ns = FOR_EVER_NS,
                                    .asks_until_ns = FOR_EVER_NS};
    }
    if (moiety_agent_disarm(reader) <= MA_ARMED) {
        __atomic_store_n(&holder.word, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&waiter.word, 0, __ATOMIC_SEQ_CST);
        (void)moiety_agent_arm(reader, shots, 1, SHOTS);
    }
}

static uint64_t take_all(struct ma_reader *reader)
{
    static union {
        struct ma_record record;
        char bytes[RECORD_BYTES_MAX];
    } to;
    uint64_t fired = 0;
    while (moiety_agent_take(reader, &to.record)) {
        if (to.record.flags & MA_FIRED) {
            fired++;
            if (!(to.record.flags & MA_SENT)) {
                bool opens = to.record.shot % 2;
                bool is_waiter = to.record.shot == 1 || to.record.shot == 2;
                send_note(is_waiter ? waiter.ours : holder.ours, opens ? MW_GRANT : MW_REVOKE);
            }
        }
        if (to.record.flags & MA_BURST) {
            moiety_agent_resume(reader, to.record.key);
        }
    }
    return fired;
}

int main(int argc, char **argv)
{
    MUST(argc == 3);
    unsigned seed = (unsigned)atoi(argv[2]);
    time_t end = time(NULL) + atoi(argv[1]);
    uint64_t fired = 0, rounds = 0;
    int event_fd;
    struct ma_reader *reader = moiety_agent_start(1 << 14, HOLD_NS, &event_fd);
    MUST(reader != NULL);
    begin(reader, &holder, 1);
    begin(reader, &waiter, 2);
    holder.seed = seed + 1;
    waiter.seed = seed + 2;
    pthread_t threads[2];
    MUST(!pthread_create(&threads[0], NULL, lives, &holder));
    MUST(!pthread_create(&threads[1], NULL, lives, &waiter));
    while (time(NULL) < end) {
        struct program third;
        rounds++;
        switch (rand_r(&seed) % 16) {
        case 0:
            begin(reader, &third, 1);
            send_note(third.theirs, MW_LEASE_REQUEST);
            moiety_agent_remove(reader, third.key);
            close(third.ours);
            close(third.theirs);
            break;
        case 1:
            moiety_agent_disarm(reader);
            break;
        case 2:
            usleep(300);
            break;
        case 3:
        case 4:
            fired += take_all(reader);
            break;
        default:
            fired += take_all(reader);
            arm(reader);
            usleep(rand_r(&seed) % 64);
        }
    }
    stops = true;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    fired += take_all(reader);
    moiety_agent_stop(reader);
    printf("%llu transitions fired in %llu rounds\n", (unsigned long long)fired,
           (unsigned long long)rounds);
    return fired ? 0 : 1;
}
