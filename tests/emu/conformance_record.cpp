/*
 * Records of conformance on a GPU; see conformance_record.hpp.
 */
#include "conformance_record.hpp"
#include "include/gdpajit.h"
#include "text.hpp"

#include <cstdlib>
#include <sstream>

extern "C" {
#include "gen/assemble.h"
}

namespace emu
{

std::string record_head(const ConformanceCase &what, const std::string &source)
{
    char hash[33];
    source_hash(source.data(), source.size(), hash);
    return text("case %s, source %s\n", what.name, hash);
}

std::string record_result(const ConformanceCase &what, bool passed)
{
    return text("case %s: %s\n", what.name, passed ? "passed" : "FAILED");
}

static bool ends_with(const std::string &string, const std::string &end)
{
    return string.size() >= end.size() && string.compare(string.size() - end.size(), end.size(), end) == 0;
}

/* Whether `string` has `line`, which ends in a newline. */
static bool has_line(const std::string &string, const std::string &line)
{
    return ("\n" + string).find("\n" + line) != std::string::npos;
}

/* The architecture that a record's line "target sm_90a" names; 0 without one. */
static int target_of(const std::string &record)
{
    static const std::string start = "\ntarget sm_";
    const size_t found = record.find(start);
    return found == std::string::npos ? 0 : atoi(record.c_str() + found + start.size());
}

static bool is_excused(const ConformanceCase &what, const std::string &pending)
{
    return ("\n" + pending).find(text("\n%s: ", what.name)) != std::string::npos;
}

std::string record_fault(const std::string &record, const std::string &pending)
{
    const int target = target_of(record);
    if (target == 0) {
        return "it does not say for which target it is";
    }
    if (!ends_with(record, "\npassed\n") && !ends_with(record, "\nFAILED\n")) {
        return "it ends before the result";
    }
    for (const ConformanceCase &one : conformance_cases()) {
        if (!conformance_runs_on(one, target) || is_excused(one, pending)) {
            continue;
        }
        std::string why;
        const std::string head = record_head(one, conformance_source(one, &why));
        if (!has_line(record, head)) {
            return text("the line \"%s\" is missing: the kernel of %s was not run as it is now",
                        head.substr(0, head.size() - 1).c_str(), one.name);
        }
        if (!has_line(record, record_result(one, true))) {
            return text("the case %s did not pass", one.name);
        }
    }
    return "";
}

std::string pending_fault(const std::string &pending)
{
    std::istringstream lines(pending);
    for (std::string line; std::getline(lines, line);) {
        if (line.empty() || line[0] == '#') {
            continue;
        }
        bool named = false;
        for (const ConformanceCase &one : conformance_cases()) {
            const std::string start = text("%s: ", one.name);
            named = named || (line.compare(0, start.size(), start) == 0 &&
                              line.find_first_not_of(' ', start.size()) != std::string::npos);
        }
        if (!named) {
            return text("\"%s\" is not \"NAME OF A CASE: REASON\"", line.c_str());
        }
    }
    return "";
}

} // namespace emu
