/*
 * Records of conformance on a GPU: their words, and whether one is of the kernels as they are now and says that every case passed.
 */
#ifndef GDPA_EMU_CONFORMANCE_RECORD_HPP
#define GDPA_EMU_CONFORMANCE_RECORD_HPP

#include "conformance.hpp"

namespace emu
{

/* The line in front of a case's sections. */
std::string record_head(const ConformanceCase &what, const std::string &source);

/* The line behind them. */
std::string record_result(const ConformanceCase &what, bool passed);

/*
 * "", or what is wrong with a record. Each case that the GPU's architecture has must be there with the source it has now, and have passed.
 * `pending` excuses cases; its lines are "NAME: REASON", or comments that start with '#'.
 */
std::string record_fault(const std::string &record, const std::string &pending);

/* "", or which line of `pending` does not name a case, or gives no reason. */
std::string pending_fault(const std::string &pending);

} // namespace emu

#endif
