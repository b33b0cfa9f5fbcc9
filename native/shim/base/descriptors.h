/* Descriptors of ours in a program that may have closed its own. */
#ifndef MOIETY_SHIM_BASE_DESCRIPTORS_H
#define MOIETY_SHIM_BASE_DESCRIPTORS_H

/* Moves a new descriptor away from those of stdin, stdout and stderr, where the program reads and prints. Returns it,
 * or a negative errno; a negative `fd` stays as it is. */
int descriptors_move(int fd);

#endif
