/*
 * Who has seen what: vector clocks, from which the emulator knows whether two accesses of shared memory are ordered.
 *
 * An actor is whoever touches shared memory: each thread, each warp as a whole (collective loads), each warpgroup (wgmma) and
 * the bulk copy engine of each block. An access is (actor, value of its clock). A thread has seen it when seen[actor] has reached that
 * value: its own accesses at once, those of others through barriers, which pass on everything that the arriving threads have seen.
 * `fenced` is the part of it that a fence.proxy.async stands behind: what the asynchronous proxy may read.
 */
#ifndef GDPA_EMU_CLOCKS_HPP
#define GDPA_EMU_CLOCKS_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emu
{

class Clock
{
  public:
    explicit Clock(size_t actors = 0) : actors_(actors), values_(2 * actors, 0)
    {
    }
    void reset()
    {
        std::fill(values_.begin(), values_.end(), 0u);
    }
    uint32_t seen(size_t actor) const
    {
        return values_[actor];
    }
    uint32_t fenced(size_t actor) const
    {
        return values_[actors_ + actor];
    }
    void set_seen(size_t actor, uint32_t value)
    {
        values_[actor] = value;
    }
    void set_fenced(size_t actor, uint32_t value)
    {
        values_[actors_ + actor] = value;
    }
    void tick(size_t actor)
    {
        ++values_[actor];
    }
    /* Everything seen so far may be read by the asynchronous proxy. */
    void fence()
    {
        std::copy_n(values_.begin(), actors_, values_.begin() + static_cast<std::ptrdiff_t>(actors_));
    }
    void join(const Clock &other)
    {
        uint32_t *mine = values_.data();
        const uint32_t *theirs = other.values_.data();
        const size_t count = values_.size();
        for (size_t i = 0; i < count; ++i) {
            mine[i] = mine[i] > theirs[i] ? mine[i] : theirs[i];
        }
    }
    /* Keeps what both have seen. */
    void meet(const Clock &other)
    {
        uint32_t *mine = values_.data();
        const uint32_t *theirs = other.values_.data();
        const size_t count = values_.size();
        for (size_t i = 0; i < count; ++i) {
            mine[i] = mine[i] < theirs[i] ? mine[i] : theirs[i];
        }
    }

  private:
    size_t actors_;
    std::vector<uint32_t> values_;
};

} // namespace emu

#endif
