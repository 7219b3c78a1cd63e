#include "block.hpp"
namespace emu
{
struct BulkOperation {
};
struct WgmmaState {
};
bool progress_bulk(Cluster &, bool)
{
    return false;
}
void check_thread_exit(Thread &)
{
}
void check_block_end(Block &block)
{
    check_named_barriers(block);
}
std::string mbarrier_text(const Block &, uint32_t)
{
    return "";
}
} // namespace emu
