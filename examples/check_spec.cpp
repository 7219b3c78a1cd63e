// From C++11: checks the specs given on the command line and prints their canonical text, or why there is no kernel.
//
//     g++ check_spec.cpp $(pkg-config --cflags --libs gdpajit) -o check_spec
//     ./check_spec "fwd d=128 act=relu causal arch=sm_80" "fwd d=100 act=relu"
#include <gdpajit.h>

#include <cstdio>
#include <string>

static bool canonical(const char *words, std::string &text)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    std::size_t length = 0;
    if (gdpa_spec_parse(words, &spec) != GDPA_OK || gdpa_spec_check(&spec) != GDPA_OK) {
        return false;
    }
    if (gdpa_spec_format(&spec, nullptr, 0, &length) != GDPA_E_BUFFER) {
        return false;
    }
    text.resize(length + 1);
    if (gdpa_spec_format(&spec, &text[0], text.size(), &length) != GDPA_OK) {
        return false;
    }
    text.resize(length);
    return true;
}

int main(int argc, char **argv)
{
    int refused = 0;
    for (int i = 1; i < argc; i++) {
        std::string text;
        if (canonical(argv[i], text)) {
            std::printf("%s\n", text.c_str());
        } else {
            std::printf("refused: %s\n", gdpa_last_error());
            refused++;
        }
    }
    return refused == 0 ? 0 : 1;
}
