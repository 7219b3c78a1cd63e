/*
 * In front of the arithmetic templates on the host: the words of CUDA mean nothing, global memory is an array whose ends are watched, and a warp
 * is one lane after the other.
 *
 * A lane that meets a vote is started anew, as often as there are votes, until all lanes of the warp have come as far and the vote is known. So
 * votes may only decide about what is the same in all lanes, and functions may have no other effects.
 */
#ifndef GDPA_TESTS_TEMPLATES_HOST_ARITHMETIC_HPP
#define GDPA_TESTS_TEMPLATES_HOST_ARITHMETIC_HPP

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#define __device__

/* ---- global memory ---- */

extern "C" {
/* Set by the test: what may be read. Reads elsewhere are counted, and give 0. */
const int32_t *readable_begin, *readable_end;
int64_t reads_outside;
}

inline int32_t ld_global_nc_s32(const int32_t *address)
{
    if (address < readable_begin || address >= readable_end) {
        ++reads_outside;
        return 0;
    }
    return *address;
}

/* ---- blocks and warps ---- */

extern "C" {
/* Set by the test. */
uint32_t host_block, host_grid;
}

inline uint32_t ctaid_x()
{
    return host_block;
}

inline uint32_t nctaid_x()
{
    return host_grid;
}

struct HostWarp {
    uint32_t lane = 0;
    std::vector<uint32_t> votes; // the results that are known
    std::size_t next = 0;        // of them, for this lane
    bool predicate = false;      // of the lane, at the first vote that is not
    jmp_buf vote_is_open;
};
inline HostWarp host_warp;

inline uint32_t tid_x()
{
    return host_warp.lane;
}

inline uint32_t vote_sync_ballot(bool predicate)
{
    if (host_warp.next == host_warp.votes.size()) {
        host_warp.predicate = predicate;
        longjmp(host_warp.vote_is_open, 1);
    }
    return host_warp.votes[host_warp.next++];
}

inline uint32_t popc_b32(uint32_t value)
{
    return static_cast<uint32_t>(__builtin_popcount(value));
}

/* False: the lane has met a vote whose result is not known yet. */
template <typename Function, typename Result> bool run_lane(Function function, uint32_t lane, Result &result)
{
    host_warp.lane = lane;
    host_warp.next = 0;
    if (setjmp(host_warp.vote_is_open) != 0) {
        return false;
    }
    result = function();
    return true;
}

/* What the lanes 0 and 31 of a warp return: the same unless there is a fault in the function. */
template <typename Function> auto run_warp(Function function)
{
    std::pair<decltype(function()), decltype(function())> results;
    host_warp.votes.clear();
    while (true) {
        uint32_t vote = 0;
        bool open = false;
        for (uint32_t lane = 0; lane < 32; ++lane) {
            if (!run_lane(function, lane, lane == 0 ? results.first : results.second)) {
                vote |= static_cast<uint32_t>(host_warp.predicate) << lane;
                open = true;
            }
        }
        if (!open) {
            return results;
        }
        host_warp.votes.push_back(vote);
    }
}

#endif
