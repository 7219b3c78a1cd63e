/*
 * gdpa-jit: finds the command, parses its line, runs it. Commands are listed in commands.c.
 */
#include "tools/args.h"
#include "tools/compile_worker.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static int print_version(bool json)
{
    if (json) {
        json_t *report = json_report("version");
        json_set_text(report, "program", GDPA_VERSION_STRING);
        json_set_text(report, "library", gdpa_version_string());
        json_set_text(report, "build", gdpa_build_info());
        json_print(stdout, report);
    } else {
        printf("gdpa-jit %s\n", gdpa_version_string());
    }
    return EXIT_DONE;
}

static int unknown_command(const char *name)
{
    const char *nearest = command_nearest(name);
    if (nearest != NULL) {
        fprintf(stderr, "gdpa-jit: no command %s (did you mean %s?)\n", name, nearest);
    } else {
        fprintf(stderr, "gdpa-jit: no command %s\n", name);
    }
    fprintf(stderr, "`gdpa-jit help` lists them\n");
    return EXIT_USAGE;
}

static int print_help(int argc, char **argv)
{
    const char *name = NULL;
    for (int i = 2; i < argc && name == NULL; i++) {
        name = argv[i][0] == '-' ? NULL : argv[i];
    }
    if (has_word(argc, argv, "--json")) {
        json_print(stdout, help_json());
        return EXIT_DONE;
    }
    if (has_word(argc, argv, "--markdown")) {
        help_print_markdown(stdout);
        return EXIT_DONE;
    }
    if (has_word(argc, argv, "--scdoc")) {
        help_print_scdoc(stdout);
        return EXIT_DONE;
    }
    if (name == NULL || strcmp(name, "help") == 0) {
        help_print(stdout);
        return EXIT_DONE;
    }
    const struct command *command = command_find(name);
    if (command == NULL) {
        return unknown_command(name);
    }
    help_print_command(stdout, command);
    return EXIT_DONE;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    struct tool tool;
    char why[512];
    tool_init(&tool);
    if (!args_parse(command, argc, argv, &tool.args, why, sizeof why)) {
        tool.args.command = command;
        int code = tool_usage(&tool, "%s", why);
        tool_deinit(&tool);
        return code;
    }
    tool_start(&tool);
    int code;
    if (args_flag(&tool.args, "help")) {
        help_print_command(stdout, command);
        code = EXIT_DONE;
    } else {
        code = command->run(&tool);
    }
    if (tool.left_behind) {
        /* Threads are still inside the compiler: neither the context nor its libraries can be closed under them. */
        fflush(NULL);
        _exit(code);
    }
    tool_deinit(&tool);
    return code;
}

static int run_worker(int argc, char **argv)
{
    struct tool tool;
    char why[512];
    tool_init(&tool);
    if (!args_parse(command_find("warm"), argc, argv, &tool.args, why, sizeof why)) {
        fprintf(stderr, "gdpa-jit: %s\n", why);
        return EXIT_USAGE;
    }
    tool_start(&tool);
    const int code = compile_worker_main(&tool);
    tool_deinit(&tool);
    return code;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        help_print(stderr);
        return EXIT_USAGE;
    }
    const char *first = argv[1];
    if (strcmp(first, "help") == 0 || strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) {
        return print_help(argc, argv);
    }
    if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) {
        return print_version(has_word(argc, argv, "--json"));
    }
    if (strcmp(first, "--compile-worker") == 0) {
        return run_worker(argc - 2, argv + 2); /* of compile_worker.c, for warm alone */
    }
    if (first[0] == '-') {
        fprintf(stderr, "gdpa-jit: %s comes before the command; options come after it\n`gdpa-jit help` explains it\n",
                first);
        return EXIT_USAGE;
    }
    const struct command *command = command_find(first);
    return command == NULL ? unknown_command(first) : run_command(command, argc - 2, argv + 2);
}

int main(int argc, char **argv)
{
    int code = dispatch(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "gdpa-jit: cannot write the results: %s\n", strerror(errno));
        return code == EXIT_DONE ? EXIT_SOME_FAILED : code;
    }
    return code;
}
