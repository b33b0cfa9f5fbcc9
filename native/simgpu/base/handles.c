#include "simgpu/base/handles.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

struct entry {
    const void *object; /* NULL: never used; &removed: its handle was removed */
    enum sg_type type;
};

static const char removed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *table;
static size_t capacity, used;

static size_t place(const void *object)
{
    return (size_t)(((uintptr_t)object >> 4) * 0x9e3779b97f4a7c15ull >> 20) & (capacity - 1);
}

static struct entry *find(const void *object)
{
    if (!capacity || !object) {
        return NULL;
    }
    for (size_t i = place(object); table[i].object; i = (i + 1) & (capacity - 1)) {
        if (table[i].object == object) {
            return &table[i];
        }
    }
    return NULL;
}

static void insert(const void *object, enum sg_type type)
{
    size_t i = place(object);
    while (table[i].object && table[i].object != &removed) {
        i = (i + 1) & (capacity - 1);
    }
    used += table[i].object == NULL;
    table[i] = (struct entry){object, type};
}

static void grow(void)
{
    struct entry *old = table;
    size_t count = capacity, live = 0;
    for (size_t i = 0; i < count; i++) {
        live += old[i].object && old[i].object != &removed;
    }
    if (live * 4 >= capacity) {
        capacity = capacity ? capacity * 2 : 1024;
    }
    table = calloc(capacity, sizeof *table);
    used = 0;
    for (size_t i = 0; i < count; i++) {
        if (old[i].object && old[i].object != &removed) {
            insert(old[i].object, old[i].type);
        }
    }
    free(old);
}

void sg_handle_add(const void *object, enum sg_type type)
{
    pthread_mutex_lock(&lock);
    if (used * 2 >= capacity) {
        grow();
    }
    insert(object, type);
    pthread_mutex_unlock(&lock);
}

int sg_handle_is(const void *object, enum sg_type type)
{
    pthread_mutex_lock(&lock);
    struct entry *entry = find(object);
    int is = entry && entry->type == type;
    pthread_mutex_unlock(&lock);
    return is;
}

int sg_handle_remove(const void *object, enum sg_type type)
{
    pthread_mutex_lock(&lock);
    struct entry *entry = find(object);
    int is = entry && entry->type == type;
    if (is) {
        entry->object = &removed;
    }
    pthread_mutex_unlock(&lock);
    return is;
}
