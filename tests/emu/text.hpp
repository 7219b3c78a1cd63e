/*
 * printf into a std::string.
 */
#ifndef GDPA_EMU_TEXT_HPP
#define GDPA_EMU_TEXT_HPP

#include <cstdarg>
#include <cstdio>
#include <string>

namespace emu
{

inline std::string vtext(const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(nullptr, 0, format, again);
    va_end(again);
    std::string result(length > 0 ? static_cast<size_t>(length) : 0, '\0');
    if (length > 0) {
        vsnprintf(&result[0], static_cast<size_t>(length) + 1, format, arguments);
    }
    return result;
}

__attribute__((format(printf, 1, 2))) inline std::string text(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    std::string result = vtext(format, arguments);
    va_end(arguments);
    return result;
}

} // namespace emu

#endif
