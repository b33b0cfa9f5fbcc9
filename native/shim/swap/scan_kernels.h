/* The shim's kernels, in PTX: sm_50 is the oldest that drivers of our time know, and the driver compiles them for
 * the GPU that is there. Of each chunk SCAN_BLOCKS blocks read 64 KiB in turn, 64 bytes a thread in each round; a
 * chunk is a whole number of granules, and a granule is one round of all its blocks. So all threads of a block have
 * equally many rounds. native/simgpu/kernels/scan.c has the same kernels for the CPU. */
#ifndef MOIETY_SHIM_SWAP_SCAN_KERNELS_H
#define MOIETY_SHIM_SWAP_SCAN_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define SCAN_SLOTS 72u     /* chunks in one page */
#define SCAN_BLOCKS 32u    /* for each chunk */
#define SCAN_THREADS 1024u /* in each block */
#define SCAN_ROUND_BYTES ((size_t)SCAN_THREADS * 64)

enum scan_verdict {
    SCAN_NONE, /* the block has not run */
    SCAN_ZERO, /* it found only zeros */
    SCAN_DATA,
};

#define SCAN_HASHES 2u /* numbers modulo SCAN_PRIME that make one hash */
#define SCAN_PRIME ((1ull << 61) - 1)
#define SCAN_KEYS \
    27u /* 16 for the words of a thread's round, one for its rounds, 10 for adding up threads */

/* The page, as the kernels see it. */
struct scan_page {
    struct {
        uint64_t from, to;
    } chunk[SCAN_SLOTS];
    uint32_t verdict[SCAN_SLOTS][SCAN_BLOCKS]; /* enum scan_verdict */
    uint64_t hash[SCAN_SLOTS][SCAN_BLOCKS]
                 [SCAN_HASHES]; /* below SCAN_PRIME once the block has run */
};
_Static_assert(offsetof(struct scan_page, verdict) == 1152, "as the kernels have it");
_Static_assert(offsetof(struct scan_page, hash) == 10368, "as the kernels have it");
_Static_assert((2u << 20) == SCAN_ROUND_BYTES * SCAN_BLOCKS,
               "a granule is one round of all blocks");

/* Random numbers below SCAN_PRIME, for each of the two hashes. */
struct scan_keys {
    uint64_t of[SCAN_HASHES][SCAN_KEYS];
};
_Static_assert(sizeof(struct scan_keys) == 432, "as the kernels have it");

#define SCAN_HEADER   \
    ".version 6.0\n"  \
    ".target sm_50\n" \
    ".address_size 64\n"

/* moiety_find_zeros(page): block (x, y) leaves at the first word of its part of the xth chunk that is not zero. The
 * barrier adds up what all threads found, so all leave together. */
#define SCAN_ZEROS                                               \
    ".visible .entry moiety_find_zeros(.param .u64 page)\n"      \
    ".maxntid 1024, 1, 1\n"                                      \
    "{\n"                                                        \
    ".reg .pred %p<4>;\n"                                        \
    ".reg .b32 %r<24>;\n"                                        \
    ".reg .b64 %rd<12>;\n"                                       \
    "ld.param.u64 %rd1, [page];\n"                               \
    "cvta.to.global.u64 %rd1, %rd1;\n"                           \
    "mov.u32 %r1, %ctaid.x;\n"                                   \
    "mov.u32 %r2, %tid.x;\n"                                     \
    "mov.u32 %r20, %ctaid.y;\n"                                  \
    "mul.wide.u32 %rd2, %r1, 16;\n"                              \
    "add.u64 %rd2, %rd1, %rd2;\n"                                \
    "ld.global.v2.u64 {%rd3, %rd4}, [%rd2];\n"                   \
    "mul.wide.u32 %rd5, %r2, 16;\n"                              \
    "add.u64 %rd3, %rd3, %rd5;\n"                                \
    "mul.wide.u32 %rd5, %r20, 65536;\n"                          \
    "add.u64 %rd3, %rd3, %rd5;\n"                                \
    "mov.u32 %r3, 2;\n"                                          \
    "NEXT:\n"                                                    \
    "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd3];\n"           \
    "ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%rd3+16384];\n"   \
    "ld.global.v4.u32 {%r12, %r13, %r14, %r15}, [%rd3+32768];\n" \
    "ld.global.v4.u32 {%r16, %r17, %r18, %r19}, [%rd3+49152];\n" \
    "or.b32 %r4, %r4, %r5;\n"                                    \
    "or.b32 %r6, %r6, %r7;\n"                                    \
    "or.b32 %r8, %r8, %r9;\n"                                    \
    "or.b32 %r10, %r10, %r11;\n"                                 \
    "or.b32 %r12, %r12, %r13;\n"                                 \
    "or.b32 %r14, %r14, %r15;\n"                                 \
    "or.b32 %r16, %r16, %r17;\n"                                 \
    "or.b32 %r18, %r18, %r19;\n"                                 \
    "or.b32 %r4, %r4, %r6;\n"                                    \
    "or.b32 %r8, %r8, %r10;\n"                                   \
    "or.b32 %r12, %r12, %r14;\n"                                 \
    "or.b32 %r16, %r16, %r18;\n"                                 \
    "or.b32 %r4, %r4, %r8;\n"                                    \
    "or.b32 %r12, %r12, %r16;\n"                                 \
    "or.b32 %r4, %r4, %r12;\n"                                   \
    "setp.ne.u32 %p1, %r4, 0;\n"                                 \
    "bar.red.or.pred %p2, 0, %p1;\n"                             \
    "@%p2 bra SAY;\n"                                            \
    "add.u64 %rd3, %rd3, 2097152;\n"                             \
    "setp.lt.u64 %p3, %rd3, %rd4;\n"                             \
    "@%p3 bra NEXT;\n"                                           \
    "mov.u32 %r3, 1;\n"                                          \
    "SAY:\n"                                                     \
    "setp.ne.u32 %p1, %r2, 0;\n"                                 \
    "@%p1 bra END;\n"                                            \
    "mad.lo.u32 %r1, %r1, 32, %r20;\n"                           \
    "mul.wide.u32 %rd6, %r1, 4;\n"                               \
    "add.u64 %rd6, %rd1, %rd6;\n"                                \
    "st.global.u32 [%rd6+1152], %r3;\n"                          \
    "END:\n"                                                     \
    "ret;\n"                                                     \
    "}\n"

/* %rd13:%rd12, below 2^122, modulo 2^61 - 1: its upper and lower 61 bits are added. */
#define SCAN_REDUCE                   \
    "and.b64 %rd14, %rd12, %rd9;\n"   \
    "shr.u64 %rd12, %rd12, 61;\n"     \
    "shl.b64 %rd13, %rd13, 3;\n"      \
    "or.b64 %rd12, %rd12, %rd13;\n"   \
    "add.u64 %rd12, %rd12, %rd14;\n"  \
    "setp.ge.u64 %p2, %rd12, %rd9;\n" \
    "@%p2 sub.u64 %rd12, %rd12, %rd9;\n"
/* %rd12 = value * keys[at]. */
#define SCAN_TIMES(value, at)               \
    "ld.param.u64 %rd15, [keys+" at "];\n"  \
    "mul.hi.u64 %rd13, " value ", %rd15;\n" \
    "mul.lo.u64 %rd12, " value ", %rd15;\n" SCAN_REDUCE
/* value += %rd12. */
#define SCAN_PLUS(value)                     \
    "add.u64 " value ", " value ", %rd12;\n" \
    "setp.ge.u64 %p2, " value ", %rd9;\n"    \
    "@%p2 sub.u64 " value ", " value ", %rd9;\n"
/* %rd17:%rd16 += a word of 32 bits * keys[at]. */
#define SCAN_WORD(word, at)                       \
    "cvt.u64.u32 %rd18, " word ";\n"              \
    "ld.param.u64 %rd15, [keys+" at "];\n"        \
    "mad.lo.cc.u64 %rd16, %rd18, %rd15, %rd16;\n" \
    "madc.hi.u64 %rd17, %rd18, %rd15, %rd17;\n"
#define SCAN_WORDS_0         \
    SCAN_WORD("%r4", "0")    \
    SCAN_WORD("%r5", "8")    \
    SCAN_WORD("%r6", "16")   \
    SCAN_WORD("%r7", "24")   \
    SCAN_WORD("%r8", "32")   \
    SCAN_WORD("%r9", "40")   \
    SCAN_WORD("%r10", "48")  \
    SCAN_WORD("%r11", "56")  \
    SCAN_WORD("%r12", "64")  \
    SCAN_WORD("%r13", "72")  \
    SCAN_WORD("%r14", "80")  \
    SCAN_WORD("%r15", "88")  \
    SCAN_WORD("%r16", "96")  \
    SCAN_WORD("%r17", "104") \
    SCAN_WORD("%r18", "112") \
    SCAN_WORD("%r19", "120")
#define SCAN_WORDS_1         \
    SCAN_WORD("%r4", "216")  \
    SCAN_WORD("%r5", "224")  \
    SCAN_WORD("%r6", "232")  \
    SCAN_WORD("%r7", "240")  \
    SCAN_WORD("%r8", "248")  \
    SCAN_WORD("%r9", "256")  \
    SCAN_WORD("%r10", "264") \
    SCAN_WORD("%r11", "272") \
    SCAN_WORD("%r12", "280") \
    SCAN_WORD("%r13", "288") \
    SCAN_WORD("%r14", "296") \
    SCAN_WORD("%r15", "304") \
    SCAN_WORD("%r16", "312") \
    SCAN_WORD("%r17", "320") \
    SCAN_WORD("%r18", "328") \
    SCAN_WORD("%r19", "336")
/* One round of one hash: what it had times its key for rounds, and the words of this round. */
#define SCAN_ROUND(value, at, words)                      \
    SCAN_TIMES(value, at)                                 \
    "mov.u64 " value ", %rd12;\n"                         \
    "mov.u64 %rd16, 0;\n"                                 \
    "mov.u64 %rd17, 0;\n" words "mov.u64 %rd12, %rd16;\n" \
    "mov.u64 %rd13, %rd17;\n" SCAN_REDUCE                 \
    SCAN_PLUS(value)
/* Each thread adds what the thread `apart` after it has, times a key. */
#define SCAN_LEVEL(apart, first, second)                                                      \
    "st.shared.v2.u64 [%rd19], {%rd10, %rd11};\n"                                             \
    "bar.sync 0;\n"                                                                           \
    "add.u32 %r23, %r2, " apart ";\n"                                                         \
    "and.b32 %r23, %r23, 1023;\n"                                                             \
    "mul.wide.u32 %rd20, %r23, 16;\n"                                                         \
    "add.u64 %rd20, %rd8, %rd20;\n"                                                           \
    "ld.shared.v2.u64 {%rd21, %rd22}, [%rd20];\n"                                             \
    "bar.sync 0;\n" SCAN_TIMES("%rd21", first) SCAN_PLUS("%rd10") SCAN_TIMES("%rd22", second) \
        SCAN_PLUS("%rd11")

/* moiety_hash(page, first, keys): block (x, y) hashes its part of chunk first + x. A part in which this scan found
 * only zeros has the hash 0, and is not read. */
#define SCAN_HASH                                                                                \
    ".visible .entry moiety_hash(.param .u64 page, .param .u32 first, .param .align 8 .b8 "      \
    "keys[432])\n"                                                                               \
    ".maxntid 1024, 1, 1\n"                                                                      \
    "{\n"                                                                                        \
    ".reg .pred %p<4>;\n"                                                                        \
    ".reg .b32 %r<24>;\n"                                                                        \
    ".reg .b64 %rd<24>;\n"                                                                       \
    ".shared .align 16 .b8 sums[16384];\n"                                                       \
    "ld.param.u64 %rd1, [page];\n"                                                               \
    "cvta.to.global.u64 %rd1, %rd1;\n"                                                           \
    "ld.param.u32 %r1, [first];\n"                                                               \
    "mov.u32 %r3, %ctaid.x;\n"                                                                   \
    "add.u32 %r1, %r1, %r3;\n"                                                                   \
    "mov.u32 %r2, %tid.x;\n"                                                                     \
    "mov.u32 %r20, %ctaid.y;\n"                                                                  \
    "mov.u64 %rd9, 2305843009213693951;\n"                                                       \
    "mov.u64 %rd10, 0;\n"                                                                        \
    "mov.u64 %rd11, 0;\n"                                                                        \
    "mad.lo.u32 %r22, %r1, 32, %r20;\n"                                                          \
    "mul.wide.u32 %rd6, %r22, 4;\n"                                                              \
    "add.u64 %rd6, %rd1, %rd6;\n"                                                                \
    "ld.global.u32 %r3, [%rd6+1152];\n"                                                          \
    "setp.eq.u32 %p1, %r3, 1;\n"                                                                 \
    "@%p1 bra SAY;\n"                                                                            \
    "mul.wide.u32 %rd2, %r1, 16;\n"                                                              \
    "add.u64 %rd2, %rd1, %rd2;\n"                                                                \
    "ld.global.v2.u64 {%rd3, %rd4}, [%rd2];\n"                                                   \
    "mul.wide.u32 %rd5, %r2, 16;\n"                                                              \
    "add.u64 %rd3, %rd3, %rd5;\n"                                                                \
    "mul.wide.u32 %rd5, %r20, 65536;\n"                                                          \
    "add.u64 %rd3, %rd3, %rd5;\n"                                                                \
    "NEXT:\n"                                                                                    \
    "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd3];\n"                                           \
    "ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%rd3+16384];\n"                                   \
    "ld.global.v4.u32 {%r12, %r13, %r14, %r15}, [%rd3+32768];\n"                                 \
    "ld.global.v4.u32 {%r16, %r17, %r18, %r19}, [%rd3+49152];\n" SCAN_ROUND("%rd10", "128",      \
                                                                            SCAN_WORDS_0)        \
        SCAN_ROUND(                                                                              \
            "%rd11", "344",                                                                      \
            SCAN_WORDS_1) "add.u64 %rd3, %rd3, 2097152;\n"                                       \
                          "setp.lt.u64 %p3, %rd3, %rd4;\n"                                       \
                          "@%p3 bra NEXT;\n"                                                     \
                          "mov.u64 %rd8, sums;\n"                                                \
                          "mul.wide.u32 %rd19, %r2, 16;\n"                                       \
                          "add.u64 %rd19, %rd8, %rd19;\n" SCAN_LEVEL(                            \
                              "512", "136",                                                      \
                              "352") SCAN_LEVEL("256", "144",                                    \
                                                "360") SCAN_LEVEL("128", "152",                  \
                                                                  "368") SCAN_LEVEL("64", "160", \
                                                                                    "376")       \
                              SCAN_LEVEL("32", "168", "384") SCAN_LEVEL(                         \
                                  "16", "176", "392") SCAN_LEVEL("8", "184",                     \
                                                                 "400") SCAN_LEVEL("4", "192",   \
                                                                                   "408")        \
                                  SCAN_LEVEL("2", "200", "416") SCAN_LEVEL(                      \
                                      "1", "208",                                                \
                                      "424") "SAY:\n"                                            \
                                             "setp.ne.u32 %p1, %r2, 0;\n"                        \
                                             "@%p1 bra END;\n"                                   \
                                             "mul.wide.u32 %rd6, %r22, 16;\n"                    \
                                             "add.u64 %rd6, %rd1, %rd6;\n"                       \
                                             "st.global.v2.u64 [%rd6+10368], {%rd10, %rd11};\n"  \
                                             "END:\n"                                            \
                                             "ret;\n"                                            \
                                             "}\n"

#define SCAN_MODULE SCAN_HEADER SCAN_ZEROS SCAN_HASH
#define SCAN_MODULE_OF_ZEROS SCAN_HEADER SCAN_ZEROS

#endif
