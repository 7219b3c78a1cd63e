/*
 * Flat sources of kernels that tests write by hand: what the generator does for the templates, for one file.
 */
#ifndef GDPA_EMU_FLATTEN_HPP
#define GDPA_EMU_FLATTEN_HPP

#include <set>
#include <string>

namespace emu
{

/*
 * The file with every #include "..." of it (looked for in templates/) spliced in once, each piece under a marker line as in generated
 * sources, and the passages of //@if directives kept whose option is in `options`. "" with the reason in *why when a file is missing.
 */
std::string flatten(const std::string &path, const std::set<std::string> &options, std::string *why);

/* Replaces the only occurrence of `from`; false when there is none or more than one. */
bool replace_once(std::string *source, const std::string &from, const std::string &to);

} // namespace emu

#endif
