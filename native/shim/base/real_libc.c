#include "shim/base/real_libc.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>

#include "shim/base/safe_string.h"

struct symbols {
    const ElfW(Sym) * table;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *hash;
    ElfW(Addr) base;
};

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++) {
        h = h * 33 + (unsigned char)*name;
    }
    return h;
}

static void *find_in_gnu_hash(const struct symbols *in, const char *name)
{
    uint32_t buckets = in->gnu_hash[0];
    uint32_t first = in->gnu_hash[1];
    uint32_t bloom_words = in->gnu_hash[2];
    const uint32_t *bucket = in->gnu_hash + 4 + (size_t)bloom_words * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chain = bucket + buckets;
    uint32_t h = gnu_hash_of(name);
    uint32_t i = buckets ? bucket[h % buckets] : 0;
    if (i < first) {
        return NULL;
    }
    for (;; i++) {
        uint32_t c = chain[i - first];
        const ElfW(Sym) *symbol = &in->table[i];
        if ((c | 1u) == (h | 1u) && symbol->st_value &&
            safe_string_equal(in->strings + symbol->st_name, name)) {
            return (void *)(in->base + symbol->st_value);
        }
        if (c & 1u) {
            return NULL;
        }
    }
}

static void *find_in_hash(const struct symbols *in, const char *name)
{
    for (uint32_t i = 0; i < in->hash[1]; i++) { /* nchain = number of symbols */
        const ElfW(Sym) *symbol = &in->table[i];
        if (symbol->st_value && safe_string_equal(in->strings + symbol->st_name, name)) {
            return (void *)(in->base + symbol->st_value);
        }
    }
    return NULL;
}

static bool is_libc(const char *path)
{
    const char *name = safe_string_file_name(path);
    return safe_string_begins(name, "libc.so") || safe_string_begins(name, "libdl.so") ||
           safe_string_begins(name, "libc-") || safe_string_begins(name, "libdl-");
}

static void *look_into(ElfW(Addr) base, const ElfW(Dyn) * d, const char *name)
{
    struct symbols in = {.base = base};
    for (; d->d_tag != DT_NULL; d++) {
        /* glibc relocates these in place; other loaders leave them relative */
        ElfW(Addr) at = d->d_un.d_ptr;
        at += at < base ? base : 0;
        if (d->d_tag == DT_SYMTAB) {
            in.table = (void *)at;
        }
        if (d->d_tag == DT_STRTAB) {
            in.strings = (void *)at;
        }
        if (d->d_tag == DT_GNU_HASH) {
            in.gnu_hash = (void *)at;
        }
        if (d->d_tag == DT_HASH) {
            in.hash = (void *)at;
        }
    }
    if (!in.table || !in.strings) {
        return NULL;
    }
    return in.gnu_hash ? find_in_gnu_hash(&in, name) : in.hash ? find_in_hash(&in, name) : NULL;
}

/* What debuggers are told of: the libraries in the loader's order. The kernel says where the program's
 * own headers are, and its dynamic section says where the list is. */
static const struct link_map *loaded(void)
{
    const ElfW(Phdr) *headers = (void *)getauxval(AT_PHDR);
    unsigned long count = getauxval(AT_PHNUM);
    ElfW(Addr) base = 0;
    const ElfW(Dyn) *dynamic = NULL;
    for (unsigned long i = 0; headers && i < count; i++) {
        if (headers[i].p_type == PT_PHDR) {
            base = (ElfW(Addr))headers - headers[i].p_vaddr;
        }
    }
    for (unsigned long i = 0; headers && i < count; i++) {
        if (headers[i].p_type == PT_DYNAMIC) {
            dynamic = (void *)(base + headers[i].p_vaddr);
        }
    }
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_DEBUG && dynamic->d_un.d_ptr) {
            return ((const struct r_debug *)dynamic->d_un.d_ptr)->r_map;
        }
    }
    return NULL;
}

struct wanted {
    const char *name;
    void *found;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
    struct wanted *wanted = data;
    (void)size;
    for (int i = 0; is_libc(info->dlpi_name) && i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            const ElfW(Dyn) *d = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
            wanted->found = look_into(info->dlpi_addr, d, wanted->name);
        }
    }
    return wanted->found != NULL;
}

void *real_libc_find(const char *name)
{
    struct wanted wanted = {.name = name};
    const struct link_map *map = loaded();
    for (; map && !wanted.found; map = map->l_next) {
        if (map->l_name && is_libc(map->l_name)) {
            wanted.found = look_into(map->l_addr, map->l_ld, name);
        }
    }
    if (!wanted.found) { /* started by a loader that was called by name, say */
        dl_iterate_phdr(look_at, &wanted);
    }
    return wanted.found;
}
