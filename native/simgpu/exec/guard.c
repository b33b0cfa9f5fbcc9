#include "simgpu/exec/guard.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

#include "simgpu/base/entry.h"
#include "simgpu/mem/managed.h"

static __thread sigjmp_buf *escape;
static __thread uint64_t escaped_address;
static struct sigaction previous_segv, previous_bus;

static void chain(const struct sigaction *previous, int number, siginfo_t *info, void *context)
{
    if (previous->sa_flags & SA_SIGINFO && previous->sa_sigaction) {
        previous->sa_sigaction(number, info, context);
    } else if (previous->sa_handler != SIG_DFL && previous->sa_handler != SIG_IGN) {
        previous->sa_handler(number);
    } else {
        /* No handler wants it: the access is repeated and ends the program as it would without us. */
        struct sigaction fatal = {.sa_handler = SIG_DFL};
        sigaction(number, &fatal, NULL);
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    uint64_t address = (uint64_t)(uintptr_t)info->si_addr;
    if (number == SIGSEGV && sg_managed_fault(address, sg_on_gpu)) {
        return;
    }
    if (escape) {
        escaped_address = address;
        siglongjmp(*escape, 1);
    }
    chain(number == SIGSEGV ? &previous_segv : &previous_bus, number, info, context);
}

static void install(int number, struct sigaction *previous)
{
    struct sigaction now,
        ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigaction(number, NULL, &now);
    if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault) {
        return;
    }
    *previous = now;
    sigemptyset(&ours.sa_mask);
    sigaction(number, &ours, NULL);
}

void sg_guard_install(void)
{
    install(SIGSEGV, &previous_segv);
    install(SIGBUS, &previous_bus);
}

void sg_guard_fail(uint64_t address)
{
    if (escape) {
        escaped_address = address;
        siglongjmp(*escape, 1);
    }
}

int sg_guarded(void (*work)(void *), void *argument, uint64_t *address)
{
    sigjmp_buf here, *outer = escape;
    /* A program may have installed its own handlers meanwhile (Python's faulthandler does). */
    sg_guard_install();
    if (sigsetjmp(here, 1) != 0) {
        escape = outer;
        *address = escaped_address;
        return -1;
    }
    escape = &here;
    work(argument);
    escape = outer;
    return 0;
}
