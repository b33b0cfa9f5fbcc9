#include "simgpu/shared/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simgpu/shared/machine_parse.h"
#include "simgpu/shared/process_identity.h"
#include "simgpu/shared/process_table.h"

#define MAGIC 0x3130757067696d73ull /* "simgpu01" */

/* ---- mutual exclusion ---- */

void sg_lock(void)
{
    if (pthread_mutex_lock(&sg_state->lock) == EOWNERDEAD) {
        for (unsigned i = 0; i < sg_state->machine.count; i++) {
            sg_relink_granules(i);
        }
        pthread_mutex_consistent(&sg_state->lock);
    }
}

void sg_unlock(void) { pthread_mutex_unlock(&sg_state->lock); }

static void shared_mutex(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &how);
    pthread_mutexattr_destroy(&how);
}

/* ---- opening ---- */

void sg_state_directory(char *path, size_t bytes)
{
    const char *given = getenv("MOIETY_SIMGPU_STATE");
    if (given && *given) {
        snprintf(path, bytes, "%s", given);
    } else {
        snprintf(path, bytes, "/dev/shm/moiety-simgpu-%u", (unsigned)getuid());
    }
}

static void build(struct sg_state *state, const struct sg_machine *machine)
{
    state->bytes = sizeof *state;
    state->machine = *machine;
    shared_mutex(&state->lock);
    shared_mutex(&state->clock_lock);
    for (unsigned i = 0; i < SG_DEVICES_MAX; i++) {
        shared_mutex(&state->time_lock[i]);
    }
    for (unsigned i = 0; i < machine->count; i++) {
        /* The same GPU has the same UUID in every run, as real ones have. */
        uint64_t hash = 14695981039346656037ull;
        for (const char *c = machine->profile[i].model; *c; c++) {
            hash = (hash ^ (unsigned char)*c) * 1099511628211ull;
        }
        uint64_t low = (hash ^ (i + 1)) * 1099511628211ull;
        memcpy(state->device[i].uuid, &hash, 8);
        memcpy(state->device[i].uuid + 8, &low, 8);
        state->device[i].uuid[6] = (uint8_t)((state->device[i].uuid[6] & 0x0f) | 0x40);
        state->device[i].uuid[8] = (uint8_t)((state->device[i].uuid[8] & 0x3f) | 0x80);
    }
    __atomic_store_n(&state->magic, MAGIC, __ATOMIC_RELEASE);
}

static struct sg_state *map(int file)
{
    void *at = mmap(NULL, sizeof(struct sg_state), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE, file, 0);
    return at == MAP_FAILED ? NULL : at;
}

static int in_use(const struct sg_state *state)
{
    for (unsigned i = 0; i < SG_PROCESSES_MAX; i++) {
        if (sg_process_lives(&state->process[i])) {
            return (int)state->process[i].pid;
        }
    }
    return 0;
}

/* In a directory that every user may write to, every user may use the GPUs. */
static int create(const char *directory, const char *path, int flags)
{
    struct stat status;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
    if (file >= 0 && stat(directory, &status) == 0 && (status.st_mode & S_IWOTH) &&
        fstat(file, &status) == 0 && status.st_uid == geteuid()) {
        fchmod(file, 0666);
    }
    return file;
}

/* Called with the directory locked. */
static int open_file(const char *directory, const struct sg_machine *machine, char *why,
                     size_t why_bytes)
{
    char path[600];
    struct stat status;
    snprintf(path, sizeof path, "%s/gpus", directory);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file >= 0 && fstat(file, &status) == 0 &&
        (size_t)status.st_size == sizeof(struct sg_state)) {
        sg_state = map(file);
        close(file);
        if (sg_state && sg_state->magic == MAGIC && sg_state->bytes == sizeof *sg_state &&
            memcmp(&sg_state->machine, machine, sizeof *machine) == 0) {
            return 0;
        }
        int user = sg_state && sg_state->magic == MAGIC ? in_use(sg_state) : 0;
        if (sg_state) {
            munmap(sg_state, sizeof *sg_state);
        }
        sg_state = NULL;
        if (user) {
            snprintf(why, why_bytes,
                     "process %d uses %s with another value of MOIETY_SIMGPU; give all processes "
                     "the same value, or set MOIETY_SIMGPU_STATE to another directory for this one",
                     user, directory);
            return -EBUSY;
        }
    } else if (file >= 0) {
        close(file);
    }
    unlink(path);
    file = create(directory, path, O_EXCL);
    if (file >= 0 && ftruncate(file, sizeof(struct sg_state)) == 0) {
        sg_state = map(file);
    }
    if (!sg_state) {
        int error = errno;
        snprintf(why, why_bytes,
                 "%s cannot be created (%s); set MOIETY_SIMGPU_STATE to a directory that you may "
                 "write to",
                 path, strerror(error));
        if (file >= 0) {
            close(file);
        }
        return -error;
    }
    close(file);
    build(sg_state, machine);
    return 0;
}

static int take_slot(enum sg_role role)
{
    sg_lock();
    sg_reap();
    for (unsigned i = 0; i < sg_state->processes_high; i++) {
        struct sg_process *process = &sg_state->process[i];
        if (sg_process_is_own(process) && process->role == role) {
            sg_process_free(process); /* this process before an exec, which freed all that it had */
        }
    }
    for (unsigned i = 0; i < SG_PROCESSES_MAX; i++) {
        struct sg_process *process = &sg_state->process[i];
        if (process->pid) {
            continue;
        }
        memset(process, 0, sizeof *process);
        process->role = role;
        sg_process_register(process);
        sg_process = process;
        if (i >= sg_state->processes_high) {
            sg_state->processes_high = i + 1;
        }
        break;
    }
    sg_unlock();
    return sg_process ? 0 : -EUSERS;
}

int sg_state_open(enum sg_role role, char *why, size_t why_bytes)
{
    char directory[512], lock_path[600];
    struct sg_machine machine;
    const char *text = getenv("MOIETY_SIMGPU");
    if (!text || !*text) {
        snprintf(why, why_bytes,
                 "MOIETY_SIMGPU is not set, so there is no GPU; set it, for example to A100-80");
        return -ENODEV;
    }
    int error = sg_machine_parse(&machine, text, why, why_bytes);
    if (error) {
        return error;
    }
    sg_state_directory(directory, sizeof directory);
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        error = -errno;
        snprintf(why, why_bytes,
                 "%s cannot be created (%s); set MOIETY_SIMGPU_STATE to a directory that you may "
                 "write to",
                 directory, strerror(-error));
        return error;
    }
    snprintf(lock_path, sizeof lock_path, "%s/lock", directory);
    int lock = create(directory, lock_path, 0);
    if (lock < 0 || flock(lock, LOCK_EX) != 0) {
        error = -errno;
        snprintf(why, why_bytes,
                 "%s cannot be locked (%s); set MOIETY_SIMGPU_STATE to another directory",
                 lock_path, strerror(-error));
        if (lock >= 0) {
            close(lock);
        }
        return error;
    }
    if (!sg_slot_locks_are_open()) {
        char path[600];
        snprintf(path, sizeof path, "%s/alive", directory);
        sg_slot_locks_open(create(directory, path, 0));
    }
    error = open_file(directory, &machine, why, why_bytes);
    if (!error) {
        error = take_slot(role);
        if (error) {
            snprintf(why, why_bytes,
                     "%d processes use these GPUs already, the most that simgpu allows; end some",
                     SG_PROCESSES_MAX);
        }
    }
    close(lock);
    return error;
}

void sg_state_close(void)
{
    if (!sg_state || !sg_process) {
        return;
    }
    sg_lock();
    if (sg_process->pid == (uint32_t)getpid()) {
        sg_process_free(sg_process); /* and stays: other threads can be in calls at an exit */
    }
    sg_unlock();
}
