/* The processes of the machine at one moment, and those among them that are below others. */
#ifndef MOIETY_SUPERVISOR_PROCESS_TABLE_H
#define MOIETY_SUPERVISOR_PROCESS_TABLE_H

#include <stddef.h>

#include "supervisor/base/identity.h"

struct process_table {
    struct process *rows; /* by pid */
    size_t count, capacity;
};

/* A table that is freed at the end of its scope. */
#define PROCESS_TABLE(name) \
    struct process_table name __attribute__((cleanup(process_table_free))) = {0}

int process_table_read(struct process_table *table);
void process_table_free(struct process_table *table);
struct process *process_table_find(const struct process_table *table, pid_t pid);
void process_table_choose_below(struct process_table *table, pid_t root);
void process_table_choose_session(struct process_table *table, pid_t leader, uint64_t start_ticks);
void process_table_spread(struct process_table *table);
void process_table_keep_missed(struct process_table *table, int signal_number, uint64_t at_ticks);
size_t process_table_signal(const struct process_table *table, int signal_number);

#endif
