/*
 * Flat sources of hand-written kernels; see flatten.hpp.
 */
#include "flatten.hpp"

#include <fstream>
#include <sstream>
#include <vector>

namespace emu
{

class Flattener
{
  public:
    explicit Flattener(const std::set<std::string> &options) : options_(options)
    {
    }
    bool add(const std::string &path, const std::string &name);
    std::string text, why;

  private:
    bool active() const;
    bool directive(const std::string &line);
    void write(const std::string &line, const std::string &name);

    const std::set<std::string> &options_;
    std::set<std::string> included_;
    std::vector<bool> kept_;
    std::string marked_;
};

bool Flattener::active() const
{
    for (const bool kept : kept_) {
        if (!kept) {
            return false;
        }
    }
    return true;
}

/* True for a line that is a directive. */
bool Flattener::directive(const std::string &line)
{
    const size_t at = line.find("//@");
    if (at == std::string::npos) {
        return false;
    }
    const std::string word = line.substr(at + 3);
    if (word.compare(0, 3, "if ") == 0) {
        const bool negated = word[3] == '!';
        const std::string option = word.substr(negated ? 4 : 3);
        kept_.push_back((options_.count(option) != 0) != negated);
    } else if (word == "else") {
        kept_.back() = !kept_.back();
    } else {
        kept_.pop_back();
    }
    return true;
}

void Flattener::write(const std::string &line, const std::string &name)
{
    if (marked_ != name) {
        text += "// ---- templates/" + name + "\n";
        marked_ = name;
    }
    text += line + "\n";
}

bool Flattener::add(const std::string &path, const std::string &name)
{
    if (!included_.insert(name).second) {
        return true;
    }
    std::ifstream file(path);
    if (!file) {
        why = "cannot read " + path;
        return false;
    }
    const std::string include = "#include \"";
    std::string line;
    bool guard = false;
    while (std::getline(file, line)) {
        if (directive(line) || !active()) {
            continue;
        }
        if (line.compare(0, 13, "#ifndef GDPA_") == 0) {
            guard = true;
        } else if (line.compare(0, include.size(), include) == 0) {
            const std::string other = line.substr(include.size(), line.rfind('"') - include.size());
            if (!add(std::string(EMU_ROOT) + "/templates/" + other, other)) {
                return false;
            }
        } else if (!(guard && (line.compare(0, 13, "#define GDPA_") == 0 || line.compare(0, 6, "#endif") == 0))) {
            write(line, name);
        }
    }
    return true;
}

std::string flatten(const std::string &path, const std::set<std::string> &options, std::string *why)
{
    Flattener flattener(options);
    if (!flattener.add(path, path.substr(path.rfind('/') + 1))) {
        *why = flattener.why;
        return "";
    }
    return flattener.text;
}

bool replace_once(std::string *source, const std::string &from, const std::string &to)
{
    const size_t at = source->find(from);
    if (at == std::string::npos || source->find(from, at + 1) != std::string::npos) {
        return false;
    }
    source->replace(at, from.size(), to);
    return true;
}

} // namespace emu
