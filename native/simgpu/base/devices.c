#include "simgpu/base/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned visible[SG_DEVICES_MAX], visible_count;

static uint64_t speed_of(unsigned gpu)
{
    const struct sg_profile *profile = sg_profile_of(gpu);
    return (uint64_t)profile->multiprocessors * profile->clock_mhz;
}

/* Finds the GPU of a number as CUDA counts: the fastest first unless CUDA_DEVICE_ORDER is PCI_BUS_ID. */
static unsigned numbered(unsigned number)
{
    const char *order = getenv("CUDA_DEVICE_ORDER");
    unsigned gpus[SG_DEVICES_MAX];
    for (unsigned i = 0; i < sg_state->machine.count; i++) {
        unsigned at = i;
        for (; at > 0 && !(order && strcmp(order, "PCI_BUS_ID") == 0) &&
               speed_of(gpus[at - 1]) < speed_of(i);
             at--) {
            gpus[at] = gpus[at - 1];
        }
        gpus[at] = i;
    }
    return gpus[number];
}

/* Finds the GPU of one entry of CUDA_VISIBLE_DEVICES: a number, or GPU- and the beginning of a UUID.
 * A card in MIG mode has one instance, with the card's UUID after MIG-, and GPU- means it too. Returns
 * -1 if there is none, or several begin so. */
static int find_device(const char *text)
{
    char *rest;
    long index = strtol(text, &rest, 10);
    if (rest != text && *rest == '\0') {
        return index >= 0 && index < (long)sg_state->machine.count ? (int)numbered((unsigned)index)
                                                                   : -1;
    }
    int found = -1, of_mig = strncmp(text, "MIG-", 4) == 0;
    for (unsigned i = 0; i < sg_state->machine.count; i++) {
        const uint8_t *u = sg_state->device[i].uuid;
        char uuid[64];
        if (of_mig && !sg_profile_of(i)->mig) {
            continue;
        }
        snprintf(uuid, sizeof uuid,
                 "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                 of_mig ? "MIG" : "GPU", u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9],
                 u[10], u[11], u[12], u[13], u[14], u[15]);
        if (strlen(text) > 4 && strncmp(uuid, text, strlen(text)) == 0) {
            if (found >= 0) {
                return -1;
            }
            found = (int)i;
        }
    }
    return found;
}

void sg_devices_choose(void)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    char copy[1024], *save = NULL;
    visible_count = 0;
    if (!text) {
        while (visible_count < sg_state->machine.count) {
            visible[visible_count] = numbered(visible_count);
            visible_count++;
        }
        return;
    }
    snprintf(copy, sizeof copy, "%s", text);
    for (char *one = strtok_r(copy, ", ", &save); one; one = strtok_r(NULL, ", ", &save)) {
        int device = find_device(one);
        if (device < 0) { /* the list ends at the first unknown GPU */
            return;
        }
        for (unsigned i = 0; i < visible_count; i++) {
            if (visible[i] == (unsigned)device) {
                return;
            }
        }
        visible[visible_count++] = (unsigned)device;
    }
}

unsigned sg_device_count(void) { return visible_count; }

unsigned sg_device_of(CUdevice device) { return visible[device]; }

int sg_device_is(CUdevice device) { return device >= 0 && (unsigned)device < visible_count; }

const struct sg_profile *sg_profile_of(unsigned gpu) { return &sg_state->machine.profile[gpu]; }

CUdevice sg_ordinal_of(unsigned gpu)
{
    for (unsigned i = 0; i < visible_count; i++) {
        if (visible[i] == gpu) {
            return (CUdevice)i;
        }
    }
    return CU_DEVICE_INVALID;
}
