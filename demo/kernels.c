/* The kernels of worker.c for a real GPU, in C for LLVM's nvptx target; run.py makes PTX of them.
 * simgpu has the same ones in native/simgpu/kernels. */
typedef unsigned long long u64;

#define KERNEL __attribute__((nvptx_kernel)) void
#define FIRST                                                              \
    ((u64)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + \
     __nvvm_read_ptx_sreg_tid_x())
#define STRIDE ((u64)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x())

static u64 splitmix64(u64 x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static u64 stepped(u64 word, u64 k, u64 i) { return word * 6364136223846793005ull + k + i; }

KERNEL fill_u64(u64 *p, u64 n, u64 seed)
{
    for (u64 i = FIRST; i < n; i += STRIDE) {
        p[i] = splitmix64(seed + i);
    }
}

KERNEL step_u64(u64 *p, u64 n, u64 k)
{
    for (u64 i = FIRST; i < n; i += STRIDE) {
        p[i] = stepped(p[i], k, i);
    }
}

KERNEL check_u64(const u64 *p, u64 n, u64 seed, const u64 *ks, u64 nks, u64 *errors)
{
    u64 wrong = 0;
    for (u64 i = FIRST; i < n; i += STRIDE) {
        u64 word = splitmix64(seed + i);
        for (u64 j = 0; j < nks; j++) {
            word = stepped(word, ks[j], i);
        }
        wrong += word != p[i];
    }
    if (wrong) {
        __atomic_fetch_add(errors, wrong, __ATOMIC_RELAXED);
    }
}

KERNEL spin_us(u64 us)
{
    u64 end = __nvvm_read_ptx_sreg_globaltimer() + us * 1000;
    while (__nvvm_read_ptx_sreg_globaltimer() < end) {
    }
}

KERNEL nop(void) {}
