/*
 * Constants of a kernel. These values are for editors and for compiling a template on its own; in a generated source this
 * file is replaced by those of the names (gen/config.def) that the kernel uses, with its values.
 */
#ifndef GDPA_CONFIG_DEFAULT_CUH
#define GDPA_CONFIG_DEFAULT_CUH

constexpr int kArch = 80;               // compute capability * 10
constexpr int kHeadDim = 128;           // columns of q and k
constexpr int kHeadDimV = 128;          // columns of v and o
constexpr int kWindowLeft = -1;         // keys to the left of the aligned one; -1: unbounded
constexpr int kWindowRight = -1;        // keys to the right of it; -1: unbounded
constexpr int kBlockM = 128;            // query rows a block
constexpr int kBlockN = 32;             // keys a tile
constexpr int kSliceN = 32;             // keys that are activated and multiplied at a time
constexpr int kWarps = 4;               // warps a block
constexpr int kCluster = 2;             // blocks that share a piece of the keys
constexpr int kThreads = 128;           // threads a block
constexpr int kStages = 2;              // key and value tiles in shared memory at a time
constexpr int kQueryStages = 1;         // query tiles in shared memory at a time
constexpr int kValueColumns = 128;      // columns of the output in registers
constexpr int kDepthColumns = 128;      // columns of dK in registers
constexpr int kShareColumns = 64;       // columns of dQ in registers
constexpr int kProducerRegisters = 40;  // of a thread that copies
constexpr int kConsumerRegisters = 232; // of a thread that computes
constexpr int kMinBlocks = 2;           // blocks an SM
constexpr int kSliceM = 32;             // query rows whose scores a warp holds at a time
constexpr int kColumnParts = 1;         // warps that share keys and divide columns among them
constexpr int kDqThreads = 128;         // threads a block of the second kernel
constexpr int kDqSmemBytes = 65536;     // dynamic shared memory of the same
constexpr int kDqRows = 192;            // query rows of a tile of the same
constexpr int kDqKeys = 64;             // keys of a tile of the same
constexpr int kDqKeyStages = 2;         // key and value tiles in its shared memory at a time
constexpr int kDqProducerRegisters = 32; // of its threads that copy
constexpr int kDqConsumerRegisters = 160; // of its threads that compute
constexpr int kSmemBytes = 65536;       // dynamic shared memory of a block

#endif
