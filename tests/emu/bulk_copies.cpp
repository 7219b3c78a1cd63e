/*
 * The bulk copy engine: cp.async.bulk, cp.async.bulk.tensor and their reductions.
 *
 * A load counts as under way in the shadow from its issue until its bytes are signalled to the mbarrier; nobody may touch its target
 * before. A store counts as a reader of its source until a wait_group of the issuing thread has covered it. A copy to another block of the
 * cluster is a load there, and a reader of its source as long; both blocks must stay until somebody in them knows that it is over.
 */
#include "bulk.hpp"
#include "cluster_address.hpp"
#include "device.hpp"
#include "tensor_map.hpp"
#include "text.hpp"

#include <algorithm>
#include <cstring>

namespace emu
{

static constexpr uint32_t kUnit = 16;
static constexpr uint32_t kTensorAlignment = 128;

/* ---------------------------------------------------------------------------------------------------------------
 * Life of an operation
 * ------------------------------------------------------------------------------------------------------------- */

static void forget(const BulkOperation &operation)
{
    auto &bulk = operation.issuer->cluster->bulk;
    bulk.erase(std::remove_if(bulk.begin(), bulk.end(), [&](const auto &other) { return other.get() == &operation; }),
               bulk.end());
}

static void complete_load(BulkOperation &operation)
{
    operation.read(operation);
    operation.has_read = operation.has_written = true;
    Block &issuer = *operation.issuer;
    const uint32_t time = ++issuer.bulk_time;
    const std::vector<BulkPart> parts = operation.parts;
    const BulkPart source = operation.source;
    forget(operation);
    if (source.block != nullptr) {
        source.block->shared->end_async_read(source.address, source.bytes, issuer.bulk_actor, time, operation.name,
                                             issuer.bulk_slot());
        issuer.copies[parts.front().block] = {operation.number, time};
    }
    for (const BulkPart &part : parts) {
        part.block->shared->end_async_write(part.address, part.bytes, issuer.bulk_actor, time, true, operation.name,
                                            operation.number);
    }
    for (const BulkPart &part : parts) {
        mbarrier_complete_bytes(*part.block, part.mbarrier, part.bytes, issuer.bulk_actor, time);
    }
}

static void read_store(BulkOperation &operation)
{
    if (!operation.has_read) {
        operation.read(operation);
        operation.has_read = true;
    }
}

static void write_store(BulkOperation &operation)
{
    read_store(operation);
    if (!operation.has_written) {
        operation.write(operation);
        operation.has_written = true;
        forget(operation);
    }
}

/* The issuing thread has waited for the reads: whoever it tells may overwrite the source. */
static void note_reads(BulkOperation &operation, Thread &thread)
{
    read_store(operation);
    if (!operation.counts_as_reader) {
        return;
    }
    operation.counts_as_reader = false;
    Block &block = *operation.issuer;
    const uint32_t time = ++block.bulk_time;
    for (const BulkPart &part : operation.parts) {
        part.block->shared->end_async_read(part.address, part.bytes, block.bulk_actor, time, operation.name,
                                           block.bulk_slot());
    }
    thread.clock.set_seen(block.bulk_actor, time);
}

static void issue(const std::shared_ptr<BulkOperation> &operation)
{
    Thread &self = *current;
    Block &block = *self.block;
    operation->issuer = &block;
    operation->name = self.doing;
    operation->number = engine->new_operation(self, self.doing);
    const Access access = {block.bulk_actor, block.bulk_time + 1, &self.clock, self.doing, true};
    if (operation->source.block != nullptr) {
        block.shared->begin_async_read(operation->source.address, operation->source.bytes, access, operation->number);
    }
    for (const BulkPart &part : operation->parts) {
        if (operation->load) {
            check_mbarrier_for_bulk(*part.block, part.mbarrier);
            part.block->shared->begin_async_write(part.address, part.bytes, access, operation->number);
        } else {
            part.block->shared->begin_async_read(part.address, part.bytes, access, operation->number);
        }
    }
    operation->counts_as_reader = !operation->load;
    block.cluster->bulk.push_back(operation);
    if (!operation->load) {
        self.open_bulk.push_back(operation);
    }
    if (engine->completes_at_once()) {
        if (operation->load) {
            complete_load(*operation);
        } else {
            write_store(*operation);
        }
    }
}

bool progress_bulk(Cluster &cluster, bool only_if_waited_for)
{
    if (!only_if_waited_for) {
        if (cluster.bulk.empty()) {
            return false;
        }
        const std::shared_ptr<BulkOperation> operation =
            cluster.bulk[engine->random(static_cast<uint32_t>(cluster.bulk.size()))];
        if (operation->load) {
            complete_load(*operation);
        } else if (!operation->has_read) {
            read_store(*operation);
        } else {
            write_store(*operation);
        }
        return true;
    }
    for (const std::shared_ptr<BulkOperation> &operation : cluster.bulk) {
        for (const BulkPart &part : operation->parts) {
            if (operation->load && mbarrier_has_waiters(*part.block, part.mbarrier)) {
                const std::shared_ptr<BulkOperation> keep = operation;
                complete_load(*keep);
                return true;
            }
        }
    }
    return false;
}

void bulk_commit_group(const char *name)
{
    EMU_ENTER(name);
    current->bulk_groups.push_back(std::move(current->open_bulk));
    current->open_bulk.clear();
}

void bulk_wait_group(const char *name, uint32_t pending, bool only_reads)
{
    EMU_ENTER(name);
    auto &groups = current->bulk_groups;
    const size_t done = groups.size() > pending ? groups.size() - pending : 0;
    for (size_t i = 0; i < done; ++i) {
        for (const std::shared_ptr<BulkOperation> &operation : groups[i]) {
            note_reads(*operation, *current);
            if (!only_reads) {
                write_store(*operation);
            }
        }
    }
    if (!only_reads) {
        groups.erase(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(done));
    }
}

static void finish_stores(Thread &thread, const std::vector<std::shared_ptr<BulkOperation>> &operations)
{
    for (const std::shared_ptr<BulkOperation> &operation : operations) {
        if (operation->counts_as_reader) {
            fail("leaves the kernel while %s may still read shared memory: missing wait_group.read%s",
                 engine->operation_name(operation->number).c_str(), engine->operation_place(operation->number).c_str());
        }
        write_store(*operation);
    }
    (void)thread;
}

void check_thread_exit(Thread &thread)
{
    for (const auto &group : thread.bulk_groups) {
        finish_stores(thread, group);
    }
    finish_stores(thread, thread.open_bulk);
}

void check_block_end(Block &block)
{
    check_named_barriers(block);
    check_wgmma_end(block);
    for (const std::shared_ptr<BulkOperation> &operation : block.cluster->bulk) {
        if (operation->issuer == &block) {
            fail("block %u ended while %s was still under way%s", block.index,
                 engine->operation_name(operation->number).c_str(), engine->operation_place(operation->number).c_str());
        }
    }
}

static bool touches(const BulkOperation &operation, const Block &block)
{
    return operation.source.block == &block || std::any_of(operation.parts.begin(), operation.parts.end(),
                                                           [&](const BulkPart &part) { return part.block == &block; });
}

[[noreturn]] static void fail_to_leave(const Block &block, uint32_t operation, bool reads)
{
    fail("block %u leaves the kernel while %s may still %s its shared memory: missing wait, or missing cluster "
         "barrier%s",
         block.index, engine->operation_name(operation).c_str(), reads ? "read" : "write",
         engine->operation_place(operation).c_str());
}

void check_block_leaves(const Block &block)
{
    for (const std::shared_ptr<BulkOperation> &operation : block.cluster->bulk) {
        const bool between_blocks = operation->source.block != nullptr || operation->issuer != &block;
        if (operation->load && between_blocks && touches(*operation, block)) {
            fail_to_leave(block, operation->number, operation->source.block == &block);
        }
    }
    for (const std::unique_ptr<Block> &from : block.cluster->blocks) {
        for (const auto &[to, copy] : from->copies) {
            if ((from.get() == &block || to == &block) && !block_has_seen(block, from->bulk_actor, copy.time)) {
                fail_to_leave(block, copy.operation, from.get() == &block);
            }
        }
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * Linear copies
 * ------------------------------------------------------------------------------------------------------------- */

static void check_linear(uint32_t shared, const void *global, uint32_t bytes)
{
    if (shared % kUnit != 0 || reinterpret_cast<uintptr_t>(global) % kUnit != 0 || bytes % kUnit != 0 || bytes == 0) {
        fail("shared address 0x%x, global address %p and %u bytes must all be multiples of 16", shared, global, bytes);
    }
}

static void check_global(const void *address, size_t bytes, bool write)
{
    const GlobalMemory *memory = engine->launch().memory;
    const auto place = reinterpret_cast<uintptr_t>(address);
    if (memory != nullptr && !memory->allows(place, bytes, write)) {
        fail("%s %s", write ? "writes" : "reads", memory->refusal(place, bytes, write).c_str());
    }
}

/* The blocks a load goes to: those of the mask, or the one that `shared` names. */
static void add_targets(BulkOperation &operation, uint32_t shared, uint32_t mbarrier, uint32_t bytes, uint32_t mask)
{
    Block &own = *current->block;
    if (mask == 0) {
        const SharedPlace target = shared_place(own, shared);
        const SharedPlace barrier = shared_place(own, mbarrier);
        if (target.block != barrier.block) {
            fail("target 0x%x and mbarrier 0x%x are of different blocks", shared, mbarrier);
        }
        operation.parts.push_back({target.block, target.address, bytes, barrier.address});
        return;
    }
    for (uint32_t rank = 0; rank < 16; ++rank) {
        if ((mask >> rank & 1) != 0) {
            const SharedPlace target = shared_place(own, map_to_rank(shared, rank));
            operation.parts.push_back({target.block, target.address, bytes, map_to_rank(mbarrier, 0) & 0xffffffu});
        }
    }
}

void bulk_load(const char *name, uint32_t shared, const void *global, uint32_t bytes, uint32_t mbarrier, uint32_t mask)
{
    EMU_ENTER(name);
    check_linear(shared, global, bytes);
    check_global(global, bytes, false);
    auto operation = std::make_shared<BulkOperation>();
    operation->load = true;
    add_targets(*operation, shared, mbarrier, bytes, mask);
    operation->read = [global, bytes, name](BulkOperation &self) {
        for (const BulkPart &part : self.parts) {
            memcpy(part.block->shared->at(part.address, bytes, kUnit, name), global, bytes);
        }
    };
    for (const BulkPart &part : operation->parts) {
        part.block->shared->at(part.address, bytes, kUnit, name);
    }
    issue(operation);
}

void bulk_copy_to_cluster(const char *name, uint32_t to, uint32_t from, uint32_t bytes, uint32_t mbarrier)
{
    EMU_ENTER(name);
    if (to % kUnit != 0 || from % kUnit != 0 || bytes % kUnit != 0 || bytes == 0) {
        fail("target 0x%x, source 0x%x and %u bytes must all be multiples of 16", to, from, bytes);
    }
    Block &own = *current->block;
    auto operation = std::make_shared<BulkOperation>();
    operation->load = true;
    operation->source = {&own, from, bytes, 0};
    add_targets(*operation, to, mbarrier, bytes, 0);
    own.shared->at(from, bytes, kUnit, name); // an address of mapa_shared_cluster is outside
    operation->parts.front().block->shared->at(operation->parts.front().address, bytes, kUnit, name);
    operation->read = [name](BulkOperation &self) {
        const BulkPart &target = self.parts.front();
        const BulkPart &source = self.source;
        memcpy(target.block->shared->at(target.address, target.bytes, kUnit, name),
               source.block->shared->at(source.address, source.bytes, kUnit, name), source.bytes);
    };
    issue(operation);
}

static void add_floats(void *target, const void *values, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(float)) {
        float sum, value;
        memcpy(&sum, static_cast<unsigned char *>(target) + i, sizeof sum);
        memcpy(&value, static_cast<const unsigned char *>(values) + i, sizeof value);
        sum += value;
        memcpy(static_cast<unsigned char *>(target) + i, &sum, sizeof sum);
    }
}

void bulk_store(const char *name, void *global, uint32_t shared, uint32_t bytes, bool add_f32)
{
    EMU_ENTER(name);
    check_linear(shared, global, bytes);
    check_global(global, bytes, true);
    Block &own = *current->block;
    own.shared->at(shared, bytes, kUnit, name);
    auto operation = std::make_shared<BulkOperation>();
    operation->parts.push_back({&own, shared, bytes, 0});
    operation->read = [shared, bytes, name](BulkOperation &self) {
        const unsigned char *source = self.issuer->shared->at(shared, bytes, kUnit, name);
        self.staged.assign(source, source + bytes);
    };
    operation->write = [global, bytes, add_f32](BulkOperation &self) {
        if (add_f32) {
            add_floats(global, self.staged.data(), bytes);
        } else {
            memcpy(global, self.staged.data(), bytes);
        }
    };
    issue(operation);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Tensor copies
 * ------------------------------------------------------------------------------------------------------------- */

static TensorMap read_map(const void *map, uint32_t rank)
{
    TensorMap result;
    memcpy(&result, map, sizeof result);
    if (result.magic != kTensorMapMagic) {
        fail("the tensor map at %p was never encoded", map);
    }
    if (reinterpret_cast<uintptr_t>(map) % 64 != 0) {
        fail("the tensor map at %p is not aligned to 64 bytes", map);
    }
    if (result.rank != rank) {
        fail("a tensor map of %u dimensions in an instruction for %u", result.rank, rank);
    }
    return result;
}

static uint32_t box_bytes(const TensorMap &map)
{
    uint32_t bytes = map.element_bytes;
    for (const uint32_t size : map.box) {
        bytes *= size;
    }
    return bytes;
}

/* One row of a box: consecutive elements of dimension 0. */
struct BoxRow {
    uint32_t offset;       // of its first byte in the box
    unsigned char *global; // its first element that is inside the tensor
    uint32_t before;       // bytes in front of that one, outside
    uint32_t inside;       // bytes inside
};

/* visit(row) for every row of a box at `place`; rows outside the tensor have inside == 0. */
template <typename Visit>
static void for_box_rows(const TensorMap &map, const int32_t (&place)[kMostDimensions], Visit visit)
{
    uint32_t rows = 1;
    for (uint32_t i = 1; i < kMostDimensions; ++i) {
        rows *= map.box[i];
    }
    const uint32_t row_bytes = map.box[0] * map.element_bytes;
    const int64_t begin = std::clamp<int64_t>(0, place[0], int64_t{place[0]} + map.box[0]);
    const int64_t end = std::clamp<int64_t>(static_cast<int64_t>(map.sizes[0]), begin, int64_t{place[0]} + map.box[0]);
    for (uint32_t row = 0; row < rows; ++row) {
        uint64_t address = map.base + static_cast<uint64_t>(begin) * map.element_bytes;
        bool inside = begin < end;
        uint32_t rest = row;
        for (uint32_t i = 1; i < kMostDimensions; ++i) {
            const int64_t coordinate = int64_t{place[i]} + rest % map.box[i];
            rest /= map.box[i];
            inside = inside && coordinate >= 0 && static_cast<uint64_t>(coordinate) < map.sizes[i];
            address += static_cast<uint64_t>(coordinate) * map.strides[i - 1];
        }
        const auto before = static_cast<uint32_t>((begin - place[0]) * map.element_bytes);
        const auto bytes = static_cast<uint32_t>((end - begin) * map.element_bytes);
        visit(BoxRow{row * row_bytes, reinterpret_cast<unsigned char *>(address), before, inside ? bytes : 0});
    }
}

/* copy(16 bytes of shared memory, 16 bytes of the row) for every unit of a row. */
template <typename Copy>
static void for_row_units(SharedMemory &shared, const TensorMap &map, uint32_t address, const BoxRow &row, Copy copy)
{
    const uint32_t row_bytes = map.box[0] * map.element_bytes;
    for (uint32_t unit = 0; unit < row_bytes; unit += kUnit) {
        const uint32_t place = swizzled(address + row.offset + unit, map.swizzle);
        copy(shared.at(place, kUnit, kUnit, "cp.async.bulk.tensor"), unit);
    }
}

static void load_box(const TensorMap &map, const int32_t (&place)[kMostDimensions], const BulkPart &part)
{
    std::vector<unsigned char> bytes(map.box[0] * map.element_bytes);
    for_box_rows(map, place, [&](const BoxRow &row) {
        std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(map.fills_nan != 0 ? 0xff : 0));
        if (row.inside != 0) {
            memcpy(bytes.data() + row.before, row.global, row.inside);
        }
        for_row_units(*part.block->shared, map, part.address, row,
                      [&](unsigned char *shared, uint32_t unit) { memcpy(shared, bytes.data() + unit, kUnit); });
    });
}

static void check_box(const TensorMap &map, const int32_t (&place)[kMostDimensions], uint32_t shared, bool write)
{
    if (shared % kTensorAlignment != 0) {
        fail("shared address 0x%x is not a multiple of 128", shared);
    }
    for_box_rows(map, place, [&](const BoxRow &row) {
        if (row.inside != 0) {
            check_global(row.global, row.inside, write);
        }
    });
}

/* Boxes begin at a unit of 16 bytes in their rows, loads too; a GPU stops at others with an illegal instruction. */
static int64_t check_row_start(const TensorMap &map, const int32_t (&place)[kMostDimensions])
{
    const int64_t start = int64_t{place[0]} * map.element_bytes;
    if (start % kUnit != 0) {
        fail("a box starts at byte %lld of its rows, which is not a multiple of 16", static_cast<long long>(start));
    }
    return start;
}

/*
 * The copy engine writes whole units of 16 bytes, and its programming guide forbids boxes that start below 0 in any dimension. A GPU stops
 * there with an illegal instruction; it writes past a row that ends inside a unit.
 */
static void check_written_box(const TensorMap &map, const int32_t (&place)[kMostDimensions])
{
    for (uint32_t i = 0; i < map.rank; ++i) {
        if (place[i] < 0) {
            fail("a box to be written starts at %d in dimension %u; only loads may start outside", place[i], i);
        }
    }
    const int64_t start = check_row_start(map, place);
    const int64_t row = static_cast<int64_t>(map.sizes[0]) * map.element_bytes;
    if (row % kUnit != 0 && start < row && start + int64_t{map.box[0]} * map.element_bytes > row) {
        fail("a box to be written passes the end of rows of %lld bytes, which is not a multiple of 16: the bytes up to "
             "the next one are written too",
             static_cast<long long>(row));
    }
}

struct Place {
    int32_t coordinates[kMostDimensions];
};

static Place place_of(const int32_t *coordinates, uint32_t rank)
{
    Place place = {};
    std::copy_n(coordinates, rank, place.coordinates);
    return place;
}

void tensor_load(const char *name, uint32_t rank, uint32_t shared, const void *map_bytes, uint32_t mbarrier,
                 const int32_t *coordinates, uint32_t mask)
{
    EMU_ENTER(name);
    const TensorMap map = read_map(map_bytes, rank);
    const Place place = place_of(coordinates, rank);
    check_row_start(map, place.coordinates);
    auto operation = std::make_shared<BulkOperation>();
    operation->load = true;
    add_targets(*operation, shared, mbarrier, box_bytes(map), mask);
    check_box(map, place.coordinates, operation->parts.front().address, false);
    for (const BulkPart &part : operation->parts) {
        part.block->shared->at(part.address, part.bytes, kTensorAlignment, name);
    }
    operation->read = [map, place](BulkOperation &self) {
        for (const BulkPart &part : self.parts) {
            load_box(map, place.coordinates, part);
        }
    };
    issue(operation);
}

void tensor_store(const char *name, uint32_t rank, const void *map_bytes, uint32_t shared, const int32_t *coordinates,
                  bool add_f32)
{
    EMU_ENTER(name);
    const TensorMap map = read_map(map_bytes, rank);
    const Place place = place_of(coordinates, rank);
    check_written_box(map, place.coordinates);
    check_box(map, place.coordinates, shared, true);
    Block &own = *current->block;
    const uint32_t bytes = box_bytes(map);
    own.shared->at(shared, bytes, kTensorAlignment, name);
    auto operation = std::make_shared<BulkOperation>();
    operation->parts.push_back({&own, shared, bytes, 0});
    operation->read = [map, place, shared, bytes](BulkOperation &self) {
        self.staged.resize(bytes);
        for_box_rows(map, place.coordinates, [&](const BoxRow &row) {
            for_row_units(*self.issuer->shared, map, shared, row, [&](const unsigned char *source, uint32_t unit) {
                memcpy(self.staged.data() + row.offset + unit, source, kUnit);
            });
        });
    };
    operation->write = [map, place, add_f32](BulkOperation &self) {
        for_box_rows(map, place.coordinates, [&](const BoxRow &row) {
            const unsigned char *source = self.staged.data() + row.offset + row.before;
            if (add_f32 && row.inside != 0) {
                add_floats(row.global, source, row.inside);
            } else if (row.inside != 0) {
                memcpy(row.global, source, row.inside);
            }
        });
    };
    issue(operation);
}

} // namespace emu
