#include "simgpu/shared/machine_parse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simgpu/shared/cards.h"

#define MIB (1024ull * 1024)
#define GRANULE (2 * MIB)
#define MEMORY_MAX \
    (8192ull * 1024 * MIB) /* the size of the granule store (simgpu/mem/granule_store.c) */

enum key_kind { KEY_SIZE, KEY_RATE, KEY_TIME, KEY_NUMBER };

static const struct key {
    const char *name;
    enum key_kind kind;
    size_t offset, offset2; /* `link` sets two fields; all others have 0 here */
} keys[] = {
#define FIELD(field) offsetof(struct sg_profile, field)
    {"memory", KEY_SIZE, FIELD(memory_bytes), 0},
    {"residue", KEY_SIZE, FIELD(residue_bytes), 0},
    {"module", KEY_SIZE, FIELD(module_bytes), 0},
    {"keep", KEY_SIZE, FIELD(keep_bytes), 0},
    {"link", KEY_RATE, FIELD(h2d_bytes_per_s), FIELD(d2h_bytes_per_s)},
    {"h2d", KEY_RATE, FIELD(h2d_bytes_per_s), 0},
    {"d2h", KEY_RATE, FIELD(d2h_bytes_per_s), 0},
    {"duplex", KEY_RATE, FIELD(duplex_bytes_per_s), 0},
    {"pageable", KEY_RATE, FIELD(pageable_bytes_per_s), 0},
    {"p2p", KEY_RATE, FIELD(p2p_bytes_per_s), 0},
    {"bandwidth", KEY_RATE, FIELD(memory_bytes_per_s), 0},
    {"register", KEY_RATE, FIELD(register_bytes_per_s), 0},
    {"reserve", KEY_TIME, FIELD(reserve_ns), 0},
    {"create", KEY_TIME, FIELD(create_ns), 0},
    {"map", KEY_TIME, FIELD(map_ns), 0},
    {"access", KEY_TIME, FIELD(access_ns), 0},
    {"unmap", KEY_TIME, FIELD(unmap_ns), 0},
    {"release", KEY_TIME, FIELD(release_ns), 0},
    {"alloc", KEY_TIME, FIELD(alloc_ns), 0},
    {"free", KEY_TIME, FIELD(free_ns), 0},
    {"launch", KEY_TIME, FIELD(launch_ns), 0},
    {"fault", KEY_TIME, FIELD(fault_ns), 0},
    {"slice", KEY_TIME, FIELD(slice_ns), 0},
    {"switch", KEY_TIME, FIELD(switch_ns), 0},
    /* numbers that are stored in 32 bits */
    {"engines", KEY_NUMBER, FIELD(copy_engines), 0},
    {"multiprocessors", KEY_NUMBER, FIELD(multiprocessors), 0},
    {"cc_major", KEY_NUMBER, FIELD(cc_major), 0},
    {"cc_minor", KEY_NUMBER, FIELD(cc_minor), 0},
    {"compute_mode", KEY_NUMBER, FIELD(compute_mode), 0},
    {"mig", KEY_NUMBER, FIELD(mig), 0},
    {"mps", KEY_NUMBER, FIELD(mps), 0},
    {"no_persistence", KEY_NUMBER, FIELD(no_persistence), 0},
    {"rdma", KEY_NUMBER, FIELD(rdma), 0},
    {"nvlink", KEY_NUMBER, FIELD(nvlink), 0},
    {"nvlinks", KEY_NUMBER, FIELD(nvlinks), 0},
    {"charged", KEY_NUMBER, FIELD(charged), 0},
#undef FIELD
};

static const struct unit {
    const char *name;
    double factor;
} sizes[] = {{"B", 1},
             {"KiB", 1024.0},
             {"MiB", 1048576.0},
             {"GiB", 1073741824.0},
             {"TiB", 1099511627776.0},
             {"KB", 1e3},
             {"MB", 1e6},
             {"GB", 1e9},
             {"TB", 1e12}},
  times[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

/* Reads a number with its unit. Returns -1 if it is none. */
static int read_quantity(const char *text, enum key_kind kind, uint64_t *value)
{
    char *end;
    double number = strtod(text, &end);
    const struct unit *units = kind == KEY_TIME ? times : sizes;
    size_t count = kind == KEY_TIME ? sizeof times / sizeof *times : sizeof sizes / sizeof *sizes;
    if (end == text || !(number >= 0) || number > 1e18) {
        return -1;
    }
    if (kind == KEY_NUMBER) {
        *value = (uint64_t)number;
        return *end || number > 1e6 || number != (double)*value ? -1 : 0;
    }
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(units[i].name);
        const char *rest = end + length;
        if (strncmp(end, units[i].name, length) != 0) {
            continue;
        }
        if (kind == KEY_RATE ? strcmp(rest, "/s") != 0 : *rest != '\0') {
            continue;
        }
        *value = (uint64_t)(number * units[i].factor + 0.5);
        return 0;
    }
    return -1;
}

static int is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static char *trim(char *text)
{
    while (is_blank(*text)) {
        text++;
    }
    char *end = text;
    for (char *at = text; *at; at++) {
        if (!is_blank(*at)) {
            end = at + 1;
        }
    }
    *end = '\0';
    return text;
}

/* The state of reading one part. */
struct part {
    struct sg_profile profile;
    unsigned count;
    int memory_given, residue_given, keep_given;
    uint32_t driver_version;
};

static int set_model(struct part *part, const char *name, char *why, size_t why_bytes)
{
    /* A unique beginning of a name is enough: `H100`, but not `A100`. */
    const struct sg_profile *found = NULL;
    unsigned begin_so = 0;
    for (size_t i = 0; i < sg_card_count; i++) {
        if (strcasecmp(sg_cards[i].model, name) == 0) {
            part->profile = sg_cards[i];
            return 0;
        }
        size_t length = strlen(name);
        if (length >= 2 && strncasecmp(sg_cards[i].model, name, length) == 0 &&
            sg_cards[i].model[length] == '-') {
            found = &sg_cards[i];
            begin_so++;
        }
    }
    if (begin_so == 1) {
        part->profile = *found;
        return 0;
    }
    int n = snprintf(why, why_bytes, "there is no GPU model '%s'; use one of", name);
    for (size_t i = 0; i < sg_card_count && n > 0 && (size_t)n < why_bytes; i++) {
        n += snprintf(why + n, why_bytes - (size_t)n, "%s %s", i ? "," : "", sg_cards[i].model);
    }
    return -EINVAL;
}

static int set_key(struct part *part, const char *name, const char *text, char *why,
                   size_t why_bytes)
{
    static const char *const examples[] = {"16GiB", "12GB/s", "25us", "8"};
    uint64_t value;
    if (strcmp(name, "driver") == 0) {
        part->driver_version = (uint32_t)strtoul(text, NULL, 10);
        if (part->driver_version >= 11000 && part->driver_version < 100000) {
            return 0;
        }
        snprintf(why, why_bytes,
                 "driver=%s is not a driver version; write for example driver=12040", text);
        return -EINVAL;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct key *key = &keys[i];
        if (strcmp(key->name, name) != 0) {
            continue;
        }
        if (read_quantity(text, key->kind, &value) != 0) {
            snprintf(why, why_bytes, "%s=%s cannot be read; write for example %s=%s", name, text,
                     name, examples[key->kind]);
            return -EINVAL;
        }
        if (key->kind == KEY_NUMBER) {
            uint32_t small = (uint32_t)value;
            memcpy((char *)&part->profile + key->offset, &small, sizeof small);
            return 0;
        }
        memcpy((char *)&part->profile + key->offset, &value, sizeof value);
        if (key->offset2) {
            memcpy((char *)&part->profile + key->offset2, &value, sizeof value);
        }
        part->memory_given |= key->offset == offsetof(struct sg_profile, memory_bytes);
        part->keep_given |= key->offset == offsetof(struct sg_profile, keep_bytes);
        part->residue_given |= key->offset == offsetof(struct sg_profile, residue_bytes);
        return 0;
    }
    int n = snprintf(why, why_bytes,
                     "a simulated GPU has no property '%s'; the properties are driver", name);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && n > 0 && (size_t)n < why_bytes; i++) {
        n += snprintf(why + n, why_bytes - (size_t)n, ", %s", keys[i].name);
    }
    return -EINVAL;
}

static int add_part(struct sg_machine *machine, struct part *part, char *why, size_t why_bytes)
{
    struct sg_profile *profile = &part->profile;
    if (part->memory_given && !part->residue_given) {
        /* Contexts shrink with the memory, because a context of real size would fill a small GPU. */
        for (size_t i = 0; i < sg_card_count; i++) {
            if (strcmp(sg_cards[i].model, profile->model) == 0) {
                profile->residue_bytes =
                    (uint64_t)((double)sg_cards[i].residue_bytes * (double)profile->memory_bytes /
                               (double)sg_cards[i].memory_bytes);
            }
        }
    }
    if (!part->keep_given) {
        uint64_t host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
        profile->keep_bytes = host / 4 < 4096 * MIB ? host / 4 : 4096 * MIB;
    }
    profile->residue_bytes = (profile->residue_bytes + GRANULE - 1) / GRANULE * GRANULE;
    profile->memory_bytes = profile->memory_bytes / GRANULE * GRANULE;
    if (profile->memory_bytes < 4 * GRANULE) {
        snprintf(why, why_bytes, "a GPU needs at least 8MiB of memory; raise memory=");
        return -EINVAL;
    }
    if (profile->memory_bytes > MEMORY_MAX / (part->count ? part->count : 1)) {
        snprintf(why, why_bytes,
                 "the GPUs of one machine have at most 8TiB of memory together; lower memory=");
        return -EINVAL;
    }
    if (part->count == 0 || machine->count + part->count > SG_DEVICES_MAX) {
        snprintf(why, why_bytes, "a machine has between 1 and %d GPUs; lower the count",
                 SG_DEVICES_MAX);
        return -EINVAL;
    }
    for (unsigned i = 0; i < part->count; i++) {
        machine->profile[machine->count++] = *profile;
    }
    if (part->driver_version) {
        machine->driver_version = part->driver_version;
    }
    return 0;
}

static int read_file(struct part *part, const char *path, char *why, size_t why_bytes)
{
    char line[512];
    int error = 0, number = 0;
    FILE *file = fopen(path, "re");
    if (!file) {
        snprintf(why, why_bytes, "the profile %s cannot be opened (%s); check the path", path,
                 strerror(errno));
        return -EINVAL;
    }
    memset(part, 0, sizeof *part);
    part->count = 1;
    part->profile = sg_cards[1];
    while (!error && fgets(line, sizeof line, file)) {
        char inner[300];
        number++;
        char *comment = strpbrk(line, "#\n");
        if (comment) {
            *comment = '\0';
        }
        char *name = trim(line), *value = strchr(name, '=');
        if (!*name) {
            continue;
        }
        if (!value) {
            snprintf(why, why_bytes, "%s line %d is not `key = value`", path, number);
            error = -EINVAL;
            break;
        }
        *value++ = '\0';
        name = trim(name);
        value = trim(value);
        if (strcmp(name, "model") == 0) {
            error = set_model(part, value, inner, sizeof inner);
        } else if (strcmp(name, "count") == 0) {
            part->count = (unsigned)strtoul(value, NULL, 10);
        } else if (strcmp(name, "name") == 0) {
            snprintf(part->profile.name, sizeof part->profile.name, "%.80s (simgpu)", value);
        } else {
            error = set_key(part, name, value, inner, sizeof inner);
        }
        if (error) {
            snprintf(why, why_bytes, "%s line %d: %.250s", path, number, inner);
        }
    }
    fclose(file);
    return error;
}

static int read_part(struct part *part, char *text, char *why, size_t why_bytes)
{
    char *settings = strchr(text, ':'), *save = NULL, *rest;
    memset(part, 0, sizeof *part);
    if (settings) {
        *settings++ = '\0';
    }
    part->count = (unsigned)strtoul(text, &rest, 10);
    if (rest == text || *rest != 'x') {
        part->count = 1;
        rest = text;
    } else {
        rest++;
    }
    int error = set_model(part, rest, why, why_bytes);
    for (char *one = settings ? strtok_r(settings, ",", &save) : NULL; one && !error;
         one = strtok_r(NULL, ",", &save)) {
        char *value = strchr(one, '=');
        if (!value) {
            snprintf(why, why_bytes, "'%s' has no value; write key=value", one);
            return -EINVAL;
        }
        *value++ = '\0';
        error = set_key(part, trim(one), trim(value), why, why_bytes);
    }
    return error;
}

int sg_machine_parse(struct sg_machine *machine, const char *text, char *why, size_t why_bytes)
{
    char copy[2048], *save = NULL;
    struct part part;
    int error = 0;
    memset(machine, 0, sizeof *machine);
    machine->driver_version = 13000;
    if (strlen(text) >= sizeof copy) {
        snprintf(why, why_bytes,
                 "the description is longer than %zu characters; put it into a file", sizeof copy);
        return -EINVAL;
    }
    memcpy(copy, text, strlen(text) + 1);
    for (char *one = strtok_r(copy, "+", &save); one && !error; one = strtok_r(NULL, "+", &save)) {
        one = trim(one);
        error = strchr(one, '/') && !strchr(one, ':') && !strchr(one, '=')
                    ? read_file(&part, one, why, why_bytes)
                    : read_part(&part, one, why, why_bytes);
        if (!error) {
            error = add_part(machine, &part, why, why_bytes);
        }
    }
    if (!error && machine->count == 0) {
        snprintf(why, why_bytes,
                 "it is empty; write for example MOIETY_SIMGPU=A100-80 or 2xH100-80:memory=16GiB");
        return -EINVAL;
    }
    return error;
}
