/*
 * Conformance cases through NVRTC and on a GPU; see conformance_gpu.hpp.
 */
#include "conformance_gpu.hpp"
#include "include/gdpajit.h"
#include "text.hpp"

#include <cstdlib>
#include <cstring>

extern "C" {
#include "runtime/driver.h"
#include "runtime/nvrtc.h"
#include "tools/gpu.h"
}

namespace emu
{

struct Report {
    sbuf text;
    Report()
    {
        sbuf_init(&text, 1 << 16);
    }
    ~Report()
    {
        sbuf_deinit(&text);
    }
    Report(const Report &) = delete;
    Report &operator=(const Report &) = delete;
};

Compiler::Compiler()
{
    Report tried;
    nvrtc_search search = {};
    search.path = getenv("GDPAJIT_NVRTC");
    search.path_origin = "GDPAJIT_NVRTC";
    search.cuda_home = getenv("CUDA_HOME");
    search.cuda_path = getenv("CUDA_PATH");
    if (nvrtc_open(&search, &nvrtc_, &tried.text) != GDPA_OK) {
        nvrtc_ = nullptr;
        why_ = tried.text.text;
    }
}

Compiler::~Compiler()
{
    if (nvrtc_ != nullptr) {
        nvrtc_free(nvrtc_);
    }
}

std::string Compiler::version() const
{
    return nvrtc_->version;
}

bool Compiler::compile(const std::string &source, const char *target, std::vector<char> *cubin, std::string *log) const
{
    const std::string arch = text("-arch=%s", target);
    const char *const options[] = {arch.c_str(), "--std=c++17", "-default-device"};
    nvrtc_output output = {};
    Report reason;
    const gdpa_status status =
        nvrtc_compile(nvrtc_, source.c_str(), "conformance.cu", options, 3, &output, &reason.text);
    if (status == GDPA_OK) {
        cubin->assign(output.cubin, output.cubin + output.cubin_size);
    }
    *log = std::string(reason.text.text) + "\n" + (output.log == nullptr ? "" : output.log);
    nvrtc_output_deinit(&output);
    return status == GDPA_OK;
}

struct Gpu::Parts {
    gpu device = {};
    bool opened = false;
    struct driver *driver = nullptr;
    bool started = false;
};

Gpu::Gpu() : parts_(new Parts)
{
    if (!gpu_open(&parts_->device, nullptr, 0)) {
        why_ = parts_->device.why;
        return;
    }
    parts_->opened = true;
    Report reason;
    if (driver_open(getenv("GDPAJIT_LIBCUDA"), &parts_->driver, &reason.text) != GDPA_OK ||
        driver_start(parts_->driver, &reason.text) != GDPA_OK) {
        why_ = reason.text.text;
        return;
    }
    parts_->started = true;
}

Gpu::~Gpu()
{
    if (parts_->driver != nullptr) {
        driver_free(parts_->driver);
    }
    if (parts_->opened) {
        gpu_close(&parts_->device);
    }
    delete parts_;
}

bool Gpu::usable() const
{
    return parts_->started;
}

std::string Gpu::name() const
{
    return parts_->device.name;
}

std::string Gpu::driver_version() const
{
    const int version = parts_->device.driver_api;
    return text("%d.%d", version / 1000, version % 1000 / 10);
}

int Gpu::arch() const
{
    return parts_->driver->devices[0].arch;
}

const char *Gpu::target() const
{
    const arch_row *row = arch_find(arch());
    return row == nullptr ? "none" : row->target;
}

static EncodeMap encoder(const struct driver *driver)
{
    return [driver](void *map, const TensorMapRequest &request, bool fp32) {
        constexpr int kUint16 = 1, kFloat32 = 7; // CUtensorMapDataType
        const uint32_t steps[kMostDimensions] = {1, 1, 1, 1, 1};
        alignas(64) unsigned char aligned[128]; // the driver wants that; `map` lies in a vector of bytes
        const bool encoded =
            driver->tensor_map_encode != nullptr &&
            driver->tensor_map_encode(aligned, fp32 ? kFloat32 : kUint16, request.rank,
                                      const_cast<void *>(request.base), request.sizes, request.strides, request.box,
                                      steps, 0, static_cast<int>(request.swizzle), 0, 0) == CUDA_OK;
        if (encoded) {
            memcpy(map, aligned, sizeof aligned);
        }
        return encoded;
    };
}

/* Device memory and a loaded kernel, given back at the end. */
struct Job {
    struct driver *driver;
    gpu *device;
    CUlib_st *library = nullptr;
    CUkern_st *kernel = nullptr;
    CUstream_st *stream = nullptr;
    void *input = nullptr, *output = nullptr;

    ~Job()
    {
        if (stream != nullptr) {
            gpu_stream_destroy(device, stream);
        }
        gpu_free(device, input);
        gpu_free(device, output);
        if (library != nullptr) {
            driver->library_unload(library);
        }
    }
};

static std::string prepare(Job &job, const ConformanceCase &what, const std::vector<char> &cubin,
                           const std::vector<uint32_t> &input)
{
    const std::vector<uint32_t> zeros(what.output_words, 0);
    if (!gpu_alloc(job.device, input.size() * 4, &job.input) || !gpu_alloc(job.device, zeros.size() * 4, &job.output) ||
        !gpu_stream_create(job.device, &job.stream) ||
        !gpu_upload(job.device, job.input, input.data(), input.size() * 4) ||
        !gpu_upload(job.device, job.output, zeros.data(), zeros.size() * 4)) {
        return job.device->why;
    }
    int result = job.driver->library_load(&job.library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (result == CUDA_OK) {
        result = job.driver->library_kernel(&job.kernel, job.library, "conformance");
    }
    if (result == CUDA_OK) {
        result = job.driver->kernel_set(CUDA_KERNEL_MAX_DYNAMIC_SHARED, static_cast<int>(what.shared_bytes), job.kernel,
                                        job.driver->devices[0].handle);
    }
    return result == CUDA_OK ? "" : text("the kernel cannot be loaded: driver error %d", result);
}

std::string Gpu::run(const ConformanceCase &what, const std::vector<char> &cubin, const std::vector<uint32_t> &input,
                     std::vector<uint32_t> *output)
{
    Job job = {};
    job.driver = parts_->driver;
    job.device = &parts_->device;
    const std::string wrong = prepare(job, what, cubin, input);
    if (!wrong.empty()) {
        return wrong;
    }
    std::vector<unsigned char> bytes;
    std::vector<size_t> starts;
    if (!what.parameters(reinterpret_cast<uintptr_t>(job.input), reinterpret_cast<uintptr_t>(job.output),
                         encoder(parts_->driver), &bytes, &starts)) {
        return "the driver refuses a tensor map";
    }
    std::vector<void *> parameters;
    for (const size_t start : starts) {
        parameters.push_back(bytes.data() + start);
    }
    launch_config config = {};
    config.grid_x = what.blocks;
    config.grid_y = config.grid_z = 1;
    config.block_x = what.threads;
    config.block_y = config.block_z = 1;
    config.shared_bytes = what.shared_bytes;
    config.stream = job.stream;
    const int result = parts_->driver->launch(&config, job.kernel, parameters.data(), nullptr);
    if (result != CUDA_OK) {
        return text("the launch failed: driver error %d", result);
    }
    output->resize(what.output_words);
    if (!gpu_stream_wait(&parts_->device, job.stream) ||
        !gpu_download(&parts_->device, output->data(), job.output, output->size() * 4)) {
        return parts_->device.why;
    }
    return "";
}

} // namespace emu
