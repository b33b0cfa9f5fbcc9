#include "supervisor/base/process_table.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static int by_pid(const void *left, const void *right)
{
    pid_t one = ((const struct process *)left)->pid;
    pid_t other = ((const struct process *)right)->pid;
    return (one > other) - (one < other);
}

static int append(struct process_table *table, const struct process *process)
{
    if (table->count == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 256;
        struct process *rows = realloc(table->rows, capacity * sizeof *rows);
        if (!rows) {
            return -ENOMEM;
        }
        table->rows = rows;
        table->capacity = capacity;
    }
    table->rows[table->count++] = *process;
    return 0;
}

/* Reads all processes. One that begins meanwhile may be missing. */
int process_table_read(struct process_table *table)
{
    DIR *folder = opendir("/proc");
    if (!folder) {
        return -errno;
    }
    int failed = 0;
    for (struct dirent *entry = readdir(folder); entry && !failed; entry = readdir(folder)) {
        char *end = NULL;
        long pid = strtol(entry->d_name, &end, 10);
        struct process process;
        if (end != entry->d_name && !*end && !identity_read((pid_t)pid, &process)) {
            failed = append(table, &process);
        }
    }
    closedir(folder);
    if (table->count) {
        qsort(table->rows, table->count, sizeof *table->rows, by_pid);
    }
    return failed;
}

void process_table_free(struct process_table *table)
{
    free(table->rows);
    *table = (struct process_table){0};
}

struct process *process_table_find(const struct process_table *table, pid_t pid)
{
    struct process wanted = {.pid = pid};
    return table->count ? bsearch(&wanted, table->rows, table->count, sizeof wanted, by_pid) : NULL;
}

/* Chooses all that are below those that are chosen. */
void process_table_spread(struct process_table *table)
{
    bool is_changed = true;
    while (is_changed) { /* a parent mostly has the lower pid, so that one or two rounds do */
        is_changed = false;
        for (size_t i = 0; i < table->count; i++) {
            struct process *row = &table->rows[i];
            const struct process *parent =
                row->is_chosen ? NULL : process_table_find(table, row->parent);
            if (parent && parent->is_chosen) {
                row->is_chosen = true;
                is_changed = true;
            }
        }
    }
}

/* Chooses the children of this process, their children, and so on. */
void process_table_choose_below(struct process_table *table, pid_t root)
{
    for (size_t i = 0; i < table->count; i++) {
        table->rows[i].is_chosen = table->rows[i].is_chosen || table->rows[i].parent == root;
    }
    process_table_spread(table);
}

/* Chooses a process that began then, those of the session that it leads or led, and all below them. Its number is
 * not given to another process while the session has members. */
void process_table_choose_session(struct process_table *table, pid_t leader, uint64_t start_ticks)
{
    const struct process *found = process_table_find(table, leader);
    if (found && found->start_ticks != start_ticks) {
        return; /* the session has ended, and another process has got its number */
    }
    for (size_t i = 0; i < table->count; i++) {
        struct process *row = &table->rows[i];
        row->is_chosen = row->is_chosen ||
                         (row->session == leader && row->start_ticks >= start_ticks) ||
                         row->pid == leader;
    }
    process_table_spread(table);
}

/* Keeps of the chosen processes those that a signal at this moment would have ended: they missed it. */
void process_table_keep_missed(struct process_table *table, int signal_number, uint64_t at_ticks)
{
    for (size_t i = 0; i < table->count; i++) {
        struct process *row = &table->rows[i];
        row->is_chosen =
            row->is_chosen && row->start_ticks <= at_ticks && process_ends_by(row, signal_number);
    }
}

/* Kills a whole process group, so that no member forks beside it. Its number belongs to it while this member of it
 * is there. A group of our own session is none of a workload's. */
static void kill_group(const struct process *member)
{
    struct process now;
    if (member->session != getsid(0) && !identity_read(member->pid, &now) &&
        now.start_ticks == member->start_ticks && now.group == member->group) {
        (void)kill(-member->group, SIGKILL);
    }
}

/* Sends a signal to the chosen processes that have not ended; says how many there were. SIGCONT is sent only to
 * those that are stopped: others may have a handler for it. */
size_t process_table_signal(const struct process_table *table, int signal_number)
{
    size_t count = 0;
    pid_t last_group = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct process *row = &table->rows[i];
        if (!row->is_chosen || process_has_ended(row)) {
            continue;
        }
        count++;
        if (signal_number == SIGKILL && row->group != last_group) {
            last_group = row->group;
            kill_group(row);
        }
        if (signal_number != SIGCONT || row->state == 'T') {
            (void)process_signal(row, signal_number);
        }
    }
    return count;
}
