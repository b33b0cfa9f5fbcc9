/* CUDA_VISIBLE_DEVICES of a program that sees some GPUs only, as text for the driver. */
#ifndef MOIETY_SHIM_BASE_VISIBLE_LIST_H
#define MOIETY_SHIM_BASE_VISIBLE_LIST_H

#include <stddef.h>
#include <stdint.h>

#define VISIBLE_MAX 32u       /* GPUs */
#define VISIBLE_NAME_BYTES 48 /* of a UUID's text form, its end included */
#define VISIBLE_TEXT_BYTES ((size_t)VISIBLE_MAX * VISIBLE_NAME_BYTES)

/* The GPUs that a program may see, by the text forms of their UUIDs in the order of their PCI addresses. */
struct visible_gpus {
    uint32_t count;
    char names[VISIBLE_MAX][VISIBLE_NAME_BYTES];
};

/* The text form of a UUID of 16 bytes: `prefix` (GPU- or MIG-) and five groups of digits. */
void visible_list_name(char name[VISIBLE_NAME_BYTES], const char *prefix, const uint8_t *uuid);

/* What the driver is to read in place of the program's own text (NULL: it has none, and sees all). A number counts
 * these GPUs from 0; a UUID may be cut where it is still of one GPU only. As in the driver, the first entry that
 * names no GPU ends the list, and a GPU that is named twice is left to the driver to judge. */
void visible_list_write(const char *program, const struct visible_gpus *gpus,
                        char text[VISIBLE_TEXT_BYTES]);

#endif
