/* The four messages of a hand-off between bare programs that decide nothing: what a machine allows.
 *
 *   exchange pause=MICROSECONDS times=N
 *
 * Who waits asks a go-between, that one asks the holder, the holder answers, and the go-between lets the
 * first one on. Prints the time of each exchange in microseconds. */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define PACKET_BYTES 24

static void expect(ssize_t got)
{
    if (got <= 0) {
        _exit(0); /* the others have ended */
    }
}

static void pass(int from, int to)
{
    char packet[PACKET_BYTES];
    expect(recv(from, packet, sizeof(packet), 0));
    expect(send(to, packet, sizeof(packet), MSG_NOSIGNAL));
}

int main(int argc, char **argv)
{
    long pause_us = 0;
    long times = 0;
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value && strncmp(argv[i], "pause=", 6) == 0) {
            pause_us = strtol(value + 1, NULL, 10);
        } else if (value && strncmp(argv[i], "times=", 6) == 0) {
            times = strtol(value + 1, NULL, 10);
        }
    }
    int waiter[2];
    int holder[2];
    if (times <= 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, waiter) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET, 0, holder)) {
        fprintf(stderr, "usage: exchange pause=MICROSECONDS times=N\n");
        return 2;
    }
    if (fork() == 0) {
        close(waiter[0]);
        close(holder[1]);
        for (;;) {
            pass(waiter[1], holder[0]);
            pass(holder[0], waiter[1]);
        }
    }
    if (fork() == 0) {
        close(waiter[0]);
        close(waiter[1]);
        close(holder[0]);
        for (;;) {
            pass(holder[1], holder[1]);
        }
    }
    close(waiter[1]);
    close(holder[0]);
    close(holder[1]);
    prctl(PR_SET_TIMERSLACK, 1ul);
    char packet[PACKET_BYTES] = {0};
    for (long i = 0; i < times; i++) {
        usleep((useconds_t)pause_us);
        u64 began = now_ns();
        if (send(waiter[0], packet, sizeof(packet), MSG_NOSIGNAL) <= 0 ||
            recv(waiter[0], packet, sizeof(packet), 0) <= 0) {
            perror("exchange");
            return 1;
        }
        printf("%.1f\n", (double)(now_ns() - began) / 1e3);
    }
    fflush(stdout);
    close(waiter[0]); /* which ends the others */
    while (wait(NULL) > 0) {
    }
    return 0;
}
