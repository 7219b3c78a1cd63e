/*
 * Shapes as text; see problem.hpp.
 */
#include "problem.hpp"
#include "text.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace emu
{

const char shape_help[] =
    "  heads=HQ/HK        query and key heads (default 2/2)\n"
    "  q=N,N,...          query lengths, one a sequence (default 64)\n"
    "  k=N,N,...          key lengths (default 64)\n"
    "  batch=N            sequences; lengths are repeated (default: as many as lengths)\n"
    "  used_q=N,... used_k=N,...  seqused arrays\n"
    "  before=N behind=N  jagged: rows in front of the first and behind the last sequence (default 0)\n"
    "  strides=packed|gaps|heads_first|expanded|odd\n"
    "  scale=X out_scale=X param=X  run-time scalars (scale default 1/sqrt(head_dim))\n"
    "  sigma=X            standard deviation of the elements (default 1)\n"
    "  grads=q|kv|qkv|...  backward: the gradients that are wanted (default qkv)\n"
    "  accumulate=0|1     backward: add to what is there\n"
    "  max=known|unknown  whether max_seqlen_q and max_seqlen_k are given (default known)\n"
    "  offsets=right|wrong  jagged: wrong ones are any numbers; what is computed is not compared then (default right)\n"
    "  place=start|end    the end of their pages at which tensors lie (default end)\n"
    "  complete=latest|earliest|random  when asynchronous copies take place (default latest)\n"
    "  seed=N             data, and order of blocks and warps; 0: in order (default 1)\n"
    "  resident=N         clusters under way at a time (default 1)\n"
    "  blocks=N           of a persistent kernel, at most (default 3)\n";

static std::vector<int32_t> parse_list(const std::string &value)
{
    std::vector<int32_t> list;
    std::istringstream words(value);
    std::string word;
    while (std::getline(words, word, ',')) {
        list.push_back(static_cast<int32_t>(strtol(word.c_str(), nullptr, 10)));
    }
    return list;
}

static std::string print_list(const std::vector<int32_t> &list)
{
    std::string result;
    for (size_t i = 0; i < list.size(); ++i) {
        result += text(i == 0 ? "%d" : ",%d", list[i]);
    }
    return result;
}

/* The number of a word among those separated by '|'; -1 when it is none. */
static int choice(const std::string &value, const char *words)
{
    std::istringstream stream(words);
    std::string word;
    for (int number = 0; std::getline(stream, word, '|'); ++number) {
        if (word == value) {
            return number;
        }
    }
    return -1;
}

static const char stride_words[] = "packed|gaps|heads_first|expanded|odd";
static const char completion_words[] = "latest|earliest|random";

static std::string word_of(const char *words, int number)
{
    std::istringstream stream(words);
    std::string word;
    for (int i = 0; i <= number; ++i) {
        std::getline(stream, word, '|');
    }
    return word;
}

static bool parse_choice(const std::string &key, const std::string &value, Shape *shape)
{
    const char *words = key == "strides"    ? stride_words
                        : key == "complete" ? completion_words
                        : key == "max"      ? "unknown|known"
                        : key == "offsets"  ? "right|wrong"
                                            : "start|end";
    const int number = choice(value, words);
    if (number < 0) {
        return false;
    }
    if (key == "strides") {
        shape->strides = static_cast<Strides>(number);
    } else if (key == "complete") {
        shape->completion = static_cast<Completion>(number);
    } else if (key == "max") {
        shape->know_max = number == 1;
    } else if (key == "offsets") {
        shape->wrong_offsets = number == 1;
    } else {
        shape->placement = static_cast<Placement>(number);
    }
    return true;
}

static bool parse_number(const std::string &key, const std::string &value, Shape *shape)
{
    char *end = nullptr;
    const double number = strtod(value.c_str(), &end);
    if (end == value.c_str() || *end != '\0') {
        return false;
    }
    if (key == "scale") {
        shape->scale = number;
    } else if (key == "out_scale") {
        shape->out_scale = number;
    } else if (key == "param") {
        shape->param = number;
    } else if (key == "sigma") {
        shape->sigma = number;
    } else if (key == "batch") {
        shape->batch = static_cast<int64_t>(number);
    } else if (key == "before") {
        shape->before = static_cast<int64_t>(number);
    } else if (key == "behind") {
        shape->behind = static_cast<int64_t>(number);
    } else if (key == "seed") {
        shape->seed = static_cast<uint64_t>(number);
    } else if (key == "resident") {
        shape->resident = static_cast<uint32_t>(number);
    } else if (key == "accumulate") {
        shape->accumulate = number != 0;
    } else if (key == "blocks") {
        shape->blocks = static_cast<uint32_t>(number);
    } else {
        return false;
    }
    return true;
}

static bool parse_word(const std::string &key, const std::string &value, Shape *shape)
{
    if (key == "q") {
        shape->q = parse_list(value);
    } else if (key == "k") {
        shape->k = parse_list(value);
    } else if (key == "used_q") {
        shape->used_q = parse_list(value);
    } else if (key == "used_k") {
        shape->used_k = parse_list(value);
    } else if (key == "heads") {
        const size_t slash = value.find('/');
        shape->heads_q = strtol(value.c_str(), nullptr, 10);
        shape->heads_k = slash == std::string::npos ? shape->heads_q : strtol(value.c_str() + slash + 1, nullptr, 10);
        return shape->heads_q > 0 && shape->heads_k > 0;
    } else if (key == "grads") {
        shape->gradients = value;
        return value.find_first_not_of("qkv") == std::string::npos;
    } else if (key == "strides" || key == "complete" || key == "max" || key == "offsets" || key == "place") {
        return parse_choice(key, value, shape);
    } else {
        return parse_number(key, value, shape);
    }
    return true;
}

bool shape_parse(const std::string &line, Shape *shape, std::string *why)
{
    Shape result = *shape;
    std::istringstream words(line);
    std::string word;
    while (words >> word) {
        const size_t equals = word.find('=');
        if (equals == std::string::npos || !parse_word(word.substr(0, equals), word.substr(equals + 1), &result)) {
            *why = text("\"%s\" is no part of a shape; these are:\n%s", word.c_str(), shape_help);
            return false;
        }
    }
    if (result.batch < 0) {
        result.batch = static_cast<int64_t>(std::max(result.q.size(), result.k.size()));
    }
    const auto negative = [](int64_t length) { return length < 0; };
    if (std::any_of(result.q.begin(), result.q.end(), negative) ||
        std::any_of(result.k.begin(), result.k.end(), negative) || result.before < 0 || result.behind < 0) {
        *why = "q=, k=, before= and behind= are counts of rows, and not negative";
        return false;
    }
    if (result.blocks == 0 || result.resident == 0) {
        *why = "blocks= and resident= are at least 1";
        return false;
    }
    if (result.batch > 0 && (result.q.empty() || result.k.empty())) {
        *why = "q= and k= need a length";
        return false;
    }
    *shape = result;
    return true;
}

std::string shape_print(const Shape &shape)
{
    std::string line = text("batch=%lld heads=%lld/%lld q=%s k=%s", static_cast<long long>(shape.batch),
                            static_cast<long long>(shape.heads_q), static_cast<long long>(shape.heads_k),
                            print_list(shape.q).c_str(), print_list(shape.k).c_str());
    if (!shape.used_q.empty()) {
        line += " used_q=" + print_list(shape.used_q);
    }
    if (!shape.used_k.empty()) {
        line += " used_k=" + print_list(shape.used_k);
    }
    line +=
        text(" before=%lld behind=%lld strides=%s scale=%g out_scale=%g param=%g sigma=%g max=%s place=%s "
             "complete=%s seed=%llu resident=%u blocks=%u grads=%s accumulate=%d",
             static_cast<long long>(shape.before), static_cast<long long>(shape.behind),
             word_of(stride_words, static_cast<int>(shape.strides)).c_str(), shape.scale, shape.out_scale, shape.param,
             shape.sigma, shape.know_max ? "known" : "unknown", shape.placement == Placement::AtStart ? "start" : "end",
             word_of(completion_words, static_cast<int>(shape.completion)).c_str(),
             static_cast<unsigned long long>(shape.seed), shape.resident, shape.blocks, shape.gradients.c_str(),
             shape.accumulate ? 1 : 0);
    line += shape.wrong_offsets ? " offsets=wrong" : "";
    return line;
}

} // namespace emu
