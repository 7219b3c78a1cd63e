/*
 * The state of a launch: clusters of blocks of warps of threads, and what they wait for. Internal to the engine.
 */
#ifndef GDPA_EMU_BLOCK_HPP
#define GDPA_EMU_BLOCK_HPP

#include "engine.hpp"
#include "fiber.hpp"
#include "shared_memory.hpp"

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace emu
{

constexpr uint32_t kWarpLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffff;
constexpr uint32_t kWarpgroupWarps = 4;
constexpr uint32_t kNamedBarriers = 16;

struct Block;
struct Cluster;
struct Warp;
struct Warpgroup;

/* An instruction that all lanes of a warp (or of a warpgroup) perform together. */
struct Instruction {
    const char *name;
    void (*execute)(Warp &warp); // when the last lane has come; operands of lane i: warp.threads[i]->operands
    bool warpgroup = false;      // meets all four warps; `warp` is then the first of them
};

enum class Wait : uint8_t {
    None,
    Warp,      // for the other lanes, at `instruction`
    Warpgroup, // for the other warps, at `instruction`
    Barrier,   // wait_value: number of the named barrier
    Mbarrier,  // wait_value: address, wait_detail: parity
    Registers, // setmaxnreg.inc; wait_value: registers asked for
    Cluster    // barrier.cluster.wait
};

/* One cp.async. */
struct Copy {
    uint32_t shared;
    uint32_t bytes;
    uint32_t source_bytes;
    const unsigned char *global;
    uint32_t operation;
    bool done; // the data is already there; whoever reads it without a wait is wrong all the same
};

struct BulkOperation; // of the bulk copy engine; see bulk.hpp
struct WgmmaState;    // products under way; see wgmma.cpp

/* The latest wait of a thread, for reports: one with a wrong parity passes at once. */
struct MbarrierWait {
    uint32_t address = 0; // 0: none yet
    uint32_t parity = 0;
    uint32_t phase = 0;
    bool passed_at_once = false;
};

struct Thread {
    Fiber fiber;
    Warp *warp = nullptr;
    Block *block = nullptr;
    uint32_t index = 0; // %tid.x
    uint32_t lane = 0;
    uint16_t actor = 0;
    bool exited = false;
    Wait wait = Wait::None;
    uint32_t wait_value = 0;
    uint32_t wait_detail = 0;
    const char *doing = "the start of the kernel"; // the latest wrapper
    const void *where = nullptr;                   // and the address it was called from
    const Instruction *instruction = nullptr;
    void *operands = nullptr;
    Clock clock;
    std::vector<Copy> open_copies;
    std::deque<std::vector<Copy>> copy_groups;
    std::vector<std::shared_ptr<BulkOperation>> open_bulk;
    std::deque<std::vector<std::shared_ptr<BulkOperation>>> bulk_groups;
    uint32_t cluster_phase = 0; // of the cluster barrier, at the latest arrival
    MbarrierWait mbarrier_wait;

    uint32_t now() const
    {
        return clock.seen(actor);
    }
};

struct Warp {
    Block *block = nullptr;
    uint32_t index = 0;
    uint16_t actor = 0; // of collective reads
    uint32_t ready = 0; // lanes that can run
    uint32_t live = 0;  // lanes that have not left the kernel
    uint32_t arrived = 0;
    uint32_t next_lane = 0;
    uint32_t registers = 0; // a thread, after setmaxnreg
    uint32_t version = 0;   // counts changes of its threads' clocks that products look at
    bool published = true;  // some lane has passed its clock on since `actor` last ticked
    Thread *threads[kWarpLanes] = {};
};

struct Warpgroup {
    uint16_t actor = 0;
    uint32_t arrived = 0; // warps at `instruction`
    const Instruction *instruction = nullptr;
    std::shared_ptr<WgmmaState> wgmma;
    uint32_t time = 0; // clock of `actor`
};

struct NamedBarrier {
    uint32_t expected = 0; // threads, 0: nobody has come yet
    uint32_t arrived = 0;
    Clock clock;
    std::vector<Warp *> waiting;
    std::vector<uint32_t> warps; // that have come, for reports
};

struct Mbarrier {
    uint32_t count = 0;   // arrivals a phase
    int64_t pending = 0;  // arrivals missing in this phase
    int64_t bytes = 0;    // transaction bytes missing in this phase
    uint32_t phase = 0;   // number of the phase under way
    bool observed = true; // some wait has seen the completion of the phase before
    bool init_fenced = false;
    uint16_t init_actor = 0;
    uint32_t init_time = 0;
    Clock arriving;             // all who arrived so far
    Clock completed;            // all who arrived before the latest completion
    std::set<uint32_t> arrived; // actors, in this phase
    std::vector<Thread *> waiting;
};

/* The latest copy from one block to another whose bytes were signalled. */
struct ClusterCopy {
    uint32_t operation = 0;
    uint32_t time = 0; // of the copy engine of the block it came from; 0: there was none
};

/* Registers of the block that setmaxnreg deals with. */
struct RegisterPool {
    int64_t free = 0;
    std::vector<Warp *> waiting;
};

struct Block {
    Cluster *cluster = nullptr;
    uint32_t index = 0; // %ctaid.x
    uint32_t rank = 0;  // %cluster_ctarank
    uint16_t first_actor = 0;
    uint16_t bulk_actor = 0;
    uint32_t bulk_time = 0;
    std::map<const Block *, ClusterCopy> copies; // from this block, by where they went
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<Warpgroup> warpgroups;
    std::unique_ptr<SharedMemory> shared;
    NamedBarrier barriers[kNamedBarriers];
    std::map<uint32_t, Mbarrier> mbarriers;
    std::map<uint16_t, uint32_t> remote_arrivals; // at them: threads of other blocks, and their clocks at the latest
    RegisterPool registers;
    uint32_t live_threads = 0;

    size_t lane_slot(const Warp &warp) const
    {
        return warp.index;
    }
    size_t collective_slot(const Warp &warp) const
    {
        return warps.size() + warp.index;
    }
    size_t warpgroup_slot(size_t warpgroup) const
    {
        return 2 * warps.size() + warpgroup;
    }
    size_t bulk_slot() const
    {
        return 2 * warps.size() + warpgroups.size();
    }
};

struct ClusterBarrier {
    uint32_t arrived = 0; // threads, in this phase
    uint32_t phase = 0;
    Clock arriving, completed;
    std::vector<Thread *> waiting;
};

struct Cluster {
    bool running = false;
    uint32_t index = 0;
    size_t actors = 0;
    std::vector<std::unique_ptr<Block>> blocks;
    ClusterBarrier barrier;
    std::deque<std::shared_ptr<BulkOperation>> bulk; // under way, oldest first
};

class Engine
{
  public:
    explicit Engine(const Launch &launch);
    ~Engine();
    LaunchResult run();

    const Launch &launch() const
    {
        return launch_;
    }
    /* A number below `limit`; 0 when the launch has no seed. */
    uint32_t random(uint32_t limit);
    bool shuffled() const
    {
        return launch_.seed != 0;
    }
    /* For Completion::Random: whether an asynchronous operation takes place at once. */
    bool completes_at_once();
    /* Numbers asynchronous operations, with what they are for reports. */
    uint32_t new_operation(const Thread &thread, const char *wrapper);
    std::string operation_name(uint32_t operation) const;
    std::string operation_place(uint32_t operation) const;

    /* Stops the calling fiber until its lane is ready again. */
    void block_thread();
    /* Lets others run first, the calling lane stays ready. */
    void yield_thread();
    /* Reports a fault and never returns. */
    [[noreturn]] void stop(const std::string &message);

    FiberStacks stacks;
    Fiber scheduler;

  private:
    struct Operation {
        uint32_t block, thread;
        const char *wrapper;
        const void *where;
    };

    void start(Cluster &cluster, uint32_t index);
    void start_block(Block &block, size_t slot);
    void finish(Cluster &cluster);
    Warp *pick_warp();
    bool progress();
    bool step();
    std::string deadlock_text() const;
    void resume(Warp &warp);

    Launch launch_;
    uint64_t random_state_;
    std::vector<std::unique_ptr<Cluster>> clusters_;
    std::vector<uint32_t> order_; // clusters to run, last first
    std::vector<Operation> operations_{Operation{}};
    Warp *latest_warp_ = nullptr;
    bool failed_ = false;
    std::string failure_;
};

extern Engine *engine;  // of the launch under way
extern Thread *current; // the running thread, NULL in the scheduler

/* Stops the launch with "kernel, block, thread: wrapper: message" and the source lines. */
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char *format, ...);

/* Every engine function that a kernel calls starts with this: reports then say which wrapper and which line. */
#define EMU_ENTER(name)                                                                                                \
    do {                                                                                                               \
        ::emu::current->doing = (name);                                                                                \
        ::emu::current->where = __builtin_return_address(0);                                                           \
    } while (0)

/* All lanes of a warp (or all warps of a warpgroup) meet at an instruction; returns when it has been executed. */
void meet(const Instruction &instruction, void *operands);
template <typename Operands> Operands &operands_of(const Warp &warp, uint32_t lane)
{
    return *static_cast<Operands *>(warp.threads[lane]->operands);
}

/* Makes everything that the thread has seen part of `target` (release). */
void publish(Thread &thread, Clock &target);
void make_ready(Thread &thread);

/* What an access by this thread, or by the warp as a whole, is to the shadow. */
Access thread_access(const Thread &thread);
Access collective_access(Warp &warp, const char *wrapper);

std::string actor_name(const Cluster &cluster, uint16_t actor);
std::string source_lines(const void *where);

/* Asynchronous copies that only a scheduler without anything else to do lets happen. True when something happened. */
bool progress_bulk(Cluster &cluster, bool only_if_waited_for);
/* What must be over when a thread leaves, and when a block ends. */
void check_thread_exit(Thread &thread);
void check_block_end(Block &block);
/* What must be over when the last thread of a block leaves, and its shared memory may go to another one. */
void check_block_leaves(const Block &block);
void check_remote_arrivals(const Block &block);
bool block_has_seen(const Block &block, uint16_t actor, uint32_t time);
void check_named_barriers(const Block &block);
void check_wgmma_end(const Block &block);
void complete_copy_groups(Thread &thread, size_t keep);

std::string mbarrier_text(const Block &block, uint32_t address);

} // namespace emu

#endif
