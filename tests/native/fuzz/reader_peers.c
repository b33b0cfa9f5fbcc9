/* The agent's native thread between an agent that takes, adds, removes and arms by dice, and programs that lie.
 *
 *   reader_peers SEED ROUNDS      (more rounds if nothing fired)
 *
 * Each program sends packets of any length, with any number of descriptors and any header, from a thread of its own.
 * What was sent comes in order and whole until the connection is removed; its end comes last and once; a lease word
 * has the value of the transition that fired last; no descriptor stays open. Prints how many packets came.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/reader.h"
#include "wire/wire.h"

#define PROGRAMS 6
#define PACKETS 400u
#define LONGEST (MA_PACKET_BYTES + 100)
#define EPOCH 7u
#define HEADS (2 * PROGRAMS)
#define SHOTS (HEADS + 3) /* with those that follow one after another */

struct program {
    pthread_t thread;
    uint64_t dice;
    int ours, theirs;
    uint64_t key;
    uint32_t came;  /* packets */
    uint32_t heard; /* the last note */
    bool removed, ended, paused;
};

static const uint64_t holds_ns[] = {0, 50000, 1000000000};
static unsigned long packets, fired;

#define CHECK(what)                                                          \
    do {                                                                     \
        if (!(what)) {                                                       \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #what); \
            abort();                                                         \
        }                                                                    \
    } while (0)

static uint64_t roll(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ull;
    uint64_t x = *state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static int descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    while (readdir(folder)) {
        count++;
    }
    closedir(folder);
    return count;
}

/* ---- the programs ---- */

/* A message that may fire what is armed, or anything. Returns its length, at least 1. */
static size_t write_packet(struct program *program, uint32_t number, unsigned char *at)
{
    struct mw_drained drained = {.header = {MW_DRAINED, sizeof drained, number}, .epoch = EPOCH};
    uint16_t type = roll(&program->dice) % 2 ? MW_LEASE_REQUEST : MW_IDLE;
    struct mw_lease_note wants = {.header = {type, sizeof wants, number}, .epoch = EPOCH};
    uint64_t kind = roll(&program->dice) % 4;
    if (kind < 2) {
        memcpy(at, kind ? (void *)&drained : (void *)&wants, kind ? sizeof drained : sizeof wants);
        if (roll(&program->dice) % 4 == 0) {
            at[roll(&program->dice) % 4] ^= 1u << roll(&program->dice) % 8;
        }
        return kind ? sizeof drained : sizeof wants;
    }
    size_t bytes = 1 + roll(&program->dice) % (kind == 2 ? 64 : LONGEST);
    struct mw_header header = {(uint16_t)roll(&program->dice), (uint16_t)bytes, number};
    memset(at, (int)number, bytes);
    memcpy(at, &header, bytes < sizeof header ? bytes : sizeof header);
    return bytes;
}

static bool send_packet(struct program *program, const void *bytes, size_t size, unsigned fds)
{
    static _Alignas(
        struct cmsghdr) _Thread_local char control[CMSG_SPACE(MA_FDS_MAX * sizeof(int))];
    struct iovec part = {(void *)(uintptr_t)bytes, size};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    struct pollfd room = {.fd = program->theirs, .events = POLLOUT};
    if (fds) {
        packet.msg_control = control;
        packet.msg_controllen = CMSG_SPACE(fds * sizeof(int));
        struct cmsghdr *each = CMSG_FIRSTHDR(&packet);
        each->cmsg_level = SOL_SOCKET;
        each->cmsg_type = SCM_RIGHTS;
        each->cmsg_len = CMSG_LEN(fds * sizeof(int));
        for (unsigned i = 0; i < fds; i++) {
            memcpy(CMSG_DATA(each) + i * sizeof(int), &program->theirs, sizeof(int));
        }
    }
    CHECK(poll(&room, 1, -1) == 1);
    return sendmsg(program->theirs, &packet, MSG_NOSIGNAL) == (ssize_t)size;
}

/* Reads the notes of what fired, and gives the agent a moment in which nothing is in the ring. */
static void hear(struct program *program)
{
    struct mw_lease_note note;
    struct pollfd some = {.fd = program->theirs, .events = POLLIN};
    while (poll(&some, 1, 1) == 1 &&
           recv(program->theirs, &note, sizeof note, MSG_DONTWAIT) == sizeof note) {
        CHECK(note.header.type == MW_GRANT && note.header.bytes == sizeof note);
        CHECK(note.epoch >
              program->heard); /* each is sent once, in the order in which they fired */
        program->heard = note.epoch;
    }
}

static void *live(void *argument)
{
    struct program *program = argument;
    unsigned char packet[LONGEST];
    for (uint32_t number = 0; number < PACKETS; number++) {
        size_t bytes = write_packet(program, number, packet);
        uint64_t many = roll(&program->dice) % 64;
        if (number % 16 == 0) {
            hear(program);
        }
        if (!send_packet(program, packet, bytes, many ? many % 4 % 3 : MA_FDS_MAX)) {
            break; /* the agent hung up */
        }
    }
    if (roll(&program->dice) % 2) {
        send_packet(program, packet, 0, 3); /* counts as the end, and brings descriptors */
    }
    shutdown(program->theirs, SHUT_RDWR);
    return NULL;
}

/* ---- the agent ---- */

static union {
    struct ma_record record;
    unsigned char bytes[sizeof(struct ma_record) + MA_PACKET_BYTES + MA_FDS_MAX * sizeof(int)];
} taken;

static void close_fds(void)
{
    int fds[MA_FDS_MAX];
    CHECK(taken.record.fds <= MA_FDS_MAX && taken.record.bytes <= MA_PACKET_BYTES);
    memcpy(fds, taken.bytes + sizeof taken.record + taken.record.bytes,
           taken.record.fds * sizeof(int));
    for (uint32_t i = 0; i < taken.record.fds; i++) {
        CHECK(close(fds[i]) == 0);
    }
}

static void check_packet(struct program *program)
{
    struct mw_header header;
    CHECK(!program->ended);
    if (taken.record.kind == MA_END) {
        program->ended = true;
        return;
    }
    if (taken.record.bytes >= sizeof header) {
        memcpy(&header, taken.bytes + sizeof taken.record, sizeof header);
        CHECK(header.serial == program->came);
    }
    program->came++;
    program->paused = taken.record.flags & MA_BURST;
    packets++;
}

/* Takes what there is; false: nothing. */
static bool take(struct ma_reader *reader, struct program *programs, const uint32_t *word,
                 const struct ma_shot *shots)
{
    if (!moiety_agent_take(reader, &taken.record)) {
        return false;
    }
    close_fds();
    for (unsigned i = 0; i < PROGRAMS; i++) {
        if (programs[i].key == taken.record.key) {
            check_packet(&programs[i]);
        }
    }
    if (taken.record.flags & MA_FIRED) {
        uint32_t now = __atomic_load_n(word, __ATOMIC_SEQ_CST), shot = taken.record.shot;
        CHECK(taken.record.kind == MA_PACKET && shot < SHOTS);
        bool is_it = now == shots[shot].wanted; /* or one of those that follow fired already */
        for (unsigned i = HEADS; i < SHOTS; i++) {
            is_it = is_it || (i > shot && now == shots[i].wanted);
        }
        CHECK(is_it);
        fired++;
    }
    return true;
}

static void begin(struct program *program, struct ma_reader *reader, uint64_t dice)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *program = (struct program){.dice = dice, .ours = ends[0], .theirs = ends[1]};
    program->key = moiety_agent_add(reader, program->ours, (uint32_t)(dice % 2));
    CHECK(program->key != 0);
    CHECK(pthread_create(&program->thread, NULL, live, program) == 0);
}

/* The socket is closed at once: the thread does not touch it any more. */
static void hang_up(struct program *program, struct ma_reader *reader)
{
    moiety_agent_remove(reader, program->key);
    close(program->ours);
    program->removed = true;
}

/* Whatever message comes next fires, and others one after another. */
static void arm(struct ma_reader *reader, const struct program *programs, struct ma_shot *shots,
                uint32_t *word, uint64_t *dice)
{
    static const uint32_t following[] = {MW_LEASE_REQUEST, MW_IDLE, MW_DRAINED};
    static uint32_t notes;
    struct ma_shot made[SHOTS] = {0};
    uint32_t now = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < SHOTS; i++) {
        uint32_t after = i < HEADS ? 0 : i - HEADS + 1;
        uint32_t type = i < PROGRAMS ? MW_DRAINED : MW_LEASE_REQUEST;
        made[i] = (struct ma_shot){.from = programs[i % PROGRAMS].key,
                                   .to = programs[roll(dice) % PROGRAMS].key,
                                   .word = word,
                                   .expected = now + 2 * after,
                                   .wanted = now + 2 * (after + 1),
                                   .type = after ? following[after - 1] : type,
                                   .epoch = EPOCH,
                                   .gpus = 1,
                                   .note = MW_GRANT,
                                   .note_epoch = ++notes,
                                   .next = i + 1 == SHOTS ? 0 : HEADS + after,
                                   .not_after_ns = INT64_MAX};
    }
    if (moiety_agent_arm(reader, made, HEADS, SHOTS)) {
        memcpy(shots, made, sizeof made);
    }
}

static void run_round(uint64_t dice)
{
    struct program programs[PROGRAMS] = {0};
    struct ma_shot shots[SHOTS] = {0};
    uint32_t word = 0;
    int event_fd;
    struct ma_reader *reader = moiety_agent_start(1 << 14, holds_ns[roll(&dice) % 3], &event_fd);
    CHECK(reader != NULL);
    for (unsigned i = 0; i < PROGRAMS; i++) {
        begin(&programs[i], reader, roll(&dice));
    }
    struct pollfd ready = {.fd = event_fd, .events = POLLIN};
    for (unsigned over = 0; over < PROGRAMS;) {
        struct program *program = &programs[roll(&dice) % PROGRAMS];
        switch (roll(&dice) % 32) {
        case 0:
            moiety_agent_disarm(reader);
            break;
        case 1 ... 8:
            arm(reader, programs, shots, &word, &dice);
            break;
        case 9:
            if (!program->removed && roll(&dice) % 64 == 0) {
                hang_up(program, reader);
                over++;
            }
            break;
        default:
            CHECK(poll(&ready, 1, 1) >= 0); /* with an endless hold it is taken all the same */
            take(reader, programs, &word, shots);
        }
        if (program->paused && !program->removed) {
            program->paused = false;
            moiety_agent_resume(reader, program->key);
        }
        if (program->ended && !program->removed) {
            hang_up(program, reader);
            over++;
        }
    }
    while (take(reader, programs, &word, shots)) {
    }
    moiety_agent_stop(reader);
    for (unsigned i = 0; i < PROGRAMS; i++) {
        pthread_join(programs[i].thread, NULL);
        close(programs[i].theirs);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s SEED ROUNDS\n", argv[0]);
        return 2;
    }
    uint64_t dice = strtoull(argv[1], NULL, 10);
    unsigned long rounds = strtoul(argv[2], NULL, 10);
    int before = descriptors();
    for (unsigned long done = 0; done < rounds || !fired; done++) {
        run_round(roll(&dice));
    }
    if (descriptors() != before) {
        fprintf(stderr, "%d descriptors stay open\n", descriptors() - before);
        return 1;
    }
    printf("%lu packets, %lu fired\n", packets, fired);
    return 0;
}
