#include "device/cuda/cupti.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>

#if __has_include(<cupti.h>)
#include <cupti.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "device/cuda/cuda.h"
#include "neap/error.h"

namespace neap {
namespace {

struct Cupti {
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityFlushAll) flush;
  decltype(&cuptiActivityGetNextRecord) next;
  decltype(&cuptiActivityPushExternalCorrelationId) push_id;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_id;
  decltype(&cuptiGetTimestamp) timestamp;
  decltype(&cuptiSubscribe) subscribe;
  decltype(&cuptiEnableCallback) enable_callback;
  decltype(&cuptiGetGraphNodeId) graph_node_id;
  decltype(&cuptiGetResultString) result_string;
};

// By the loader's own places first, then where CUDA's installer puts it.
constexpr const char* kPlaces[] = {"libcupti.so.13", "libcupti.so", "/usr/local/cuda/lib64/libcupti.so.13",
                                   "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"};

std::optional<Cupti> load(std::string& why) {
  void* library = nullptr;
  for (const char* place : kPlaces) {
    if (library == nullptr) library = dlopen(place, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr && why.empty()) why = dlerror();
  }
  if (library == nullptr) return std::nullopt;
  Cupti out{};
  bool has_all = true;
  const auto find = [&]<class F>(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    has_all = has_all && function != nullptr;
    if (function == nullptr) why = fmt::format("libcupti has no {}", name);
  };
  find(out.enable, "cuptiActivityEnable");
  find(out.disable, "cuptiActivityDisable");
  find(out.register_callbacks, "cuptiActivityRegisterCallbacks");
  find(out.flush, "cuptiActivityFlushAll");
  find(out.next, "cuptiActivityGetNextRecord");
  find(out.push_id, "cuptiActivityPushExternalCorrelationId");
  find(out.pop_id, "cuptiActivityPopExternalCorrelationId");
  find(out.timestamp, "cuptiGetTimestamp");
  find(out.subscribe, "cuptiSubscribe");
  find(out.enable_callback, "cuptiEnableCallback");
  find(out.graph_node_id, "cuptiGetGraphNodeId");
  find(out.result_string, "cuptiGetResultString");
  return has_all ? std::optional(out) : std::nullopt;
}

// Kinds that records are made of. Those of calls are there because records that tell a call's tag come with them.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};

ActivityKind kind_of(std::uint8_t copy) {
  switch (copy) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return ActivityKind::kCopyIn;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return ActivityKind::kCopyOut;
    default: return ActivityKind::kCopyInside;
  }
}

class CuptiLog final : public ActivityLog {
 public:
  // Not null once it works: CUPTI's callbacks carry no pointer of ours.
  static CuptiLog*& self() {
    static CuptiLog* one = nullptr;
    return one;
  }

  explicit CuptiLog(const Cupti& cupti) : cupti_(cupti) {}

  // Empty: all is well.
  std::string open() {
    self() = this;
    std::string trouble = text_of(cupti_.register_callbacks(give_buffer, take_buffer));
    if (trouble.empty()) {
      trouble = text_of(cupti_.subscribe(&subscriber_, on_node, this));
    }
    for (const CUpti_CallbackId id : {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED}) {
      if (trouble.empty()) {
        trouble = text_of(cupti_.enable_callback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, id));
      }
    }
    return trouble;
  }

  void start() override {
    NEAP_CHECK_CUDA(cudaDeviceSynchronize());  // what ran before is not noted
    for (const CUpti_ActivityKind kind : kKinds) check(cupti_.enable(kind), "cuptiActivityEnable");
    std::uint64_t now = 0;
    check(cupti_.timestamp(&now), "cuptiGetTimestamp");
    const std::int64_t steady = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    offset_ns_ = steady - static_cast<std::int64_t>(now);
    const std::scoped_lock lock(mutex_);
    records_.clear();
    tag_of_call_.clear();
  }

  void tag(std::uint32_t tag) override {
    if (tag == tag_) return;
    if (tag_ != Activity::kNoTag) cupti_.pop_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, nullptr);
    if (tag != Activity::kNoTag) cupti_.push_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, tag);
    tag_ = tag;
  }

  std::vector<Activity> stop() override {
    tag(Activity::kNoTag);
    const cudaError_t status = cudaDeviceSynchronize();
    for (const CUpti_ActivityKind kind : kKinds) cupti_.disable(kind);
    cupti_.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    if (status != cudaSuccess) cudaGetLastError();
    const std::scoped_lock lock(mutex_);
    std::vector<Activity> out;
    for (Record& r : records_) {
      r.activity.tag = tag_of(r);
      out.push_back(std::move(r.activity));
    }
    records_.clear();
    std::sort(out.begin(), out.end(), [](const Activity& a, const Activity& b) { return a.begun_ns < b.begun_ns; });
    return out;
  }

 private:
  struct Record {
    Activity activity;
    std::uint32_t call = 0;        // CUPTI's number of the call that asked for it
    std::uint64_t graph_node = 0;  // 0: it was not part of a graph
  };

  std::string text_of(CUptiResult status) const {
    const char* text = nullptr;
    if (status == CUPTI_SUCCESS) return {};
    cupti_.result_string(status, &text);
    return text != nullptr ? text : "unknown error";
  }
  void check(CUptiResult status, const char* call) const {
    if (status != CUPTI_SUCCESS) throw DeviceError(fmt::format("{} failed: {}", call, text_of(status)));
  }

  std::uint32_t tag_of(const Record& r) const {
    if (r.graph_node != 0) {
      const auto found = tag_of_node_.find(r.graph_node);
      return found != tag_of_node_.end() ? found->second : Activity::kNoTag;
    }
    const auto found = tag_of_call_.find(r.call);
    return found != tag_of_call_.end() ? found->second : Activity::kNoTag;
  }

  static void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
    constexpr std::size_t kBytes = 4U << 20U;
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, kBytes));
    *size = *buffer != nullptr ? kBytes : 0;
    *most_records = 0;  // as many as fit
  }

  static void CUPTIAPI take_buffer(CUcontext /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer,
                                   std::size_t /*size*/, std::size_t valid) {
    CUpti_Activity* record = nullptr;
    const std::scoped_lock lock(self()->mutex_);
    while (valid > 0 && self()->cupti_.next(buffer, valid, &record) == CUPTI_SUCCESS) self()->take(*record);
    std::free(buffer);
  }

  template <class R>
  void add(const R& r, ActivityKind kind, std::int64_t bytes, const char* name) {
    if (r.start == 0 || r.end < r.start) return;  // CUPTI could not time it
    records_.push_back({.activity = {.kind = kind,
                                     .stream = r.streamId,
                                     .begun_ns = static_cast<std::int64_t>(r.start) + offset_ns_,
                                     .ended_ns = static_cast<std::int64_t>(r.end) + offset_ns_,
                                     .bytes = bytes,
                                     .name = name != nullptr ? name : ""},
                        .call = r.correlationId,
                        .graph_node = r.graphNodeId});
  }

  void take(const CUpti_Activity& record) {
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& r = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
        return add(r, ActivityKind::kKernel, 0, r.name);
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& r = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
        return add(r, kind_of(r.copyKind), static_cast<std::int64_t>(r.bytes), nullptr);
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& r = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
        return add(r, ActivityKind::kFill, static_cast<std::int64_t>(r.bytes), nullptr);
      }
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto& r = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
        tag_of_call_[r.correlationId] = static_cast<std::uint32_t>(r.externalId);
        return;
      }
      default: return;
    }
  }

  // A node of a graph belongs to the work during whose capture it was made; instantiating the graph clones it.
  static void CUPTIAPI on_node(void* me, CUpti_CallbackDomain /*domain*/, CUpti_CallbackId id, const void* resource) {
    auto& log = *static_cast<CuptiLog*>(me);
    const auto& data =
        *static_cast<const CUpti_GraphData*>(static_cast<const CUpti_ResourceData*>(resource)->resourceDescriptor);
    std::uint64_t node = 0;
    if (log.cupti_.graph_node_id(data.node, &node) != CUPTI_SUCCESS) return;
    const std::scoped_lock lock(log.mutex_);
    if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) {
      if (log.tag_ != Activity::kNoTag) log.tag_of_node_[node] = log.tag_;
      return;
    }
    std::uint64_t original = 0;
    if (log.cupti_.graph_node_id(data.originalNode, &original) != CUPTI_SUCCESS) return;
    const auto found = log.tag_of_node_.find(original);
    if (found != log.tag_of_node_.end()) log.tag_of_node_[node] = found->second;
  }

  Cupti cupti_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::int64_t offset_ns_ = 0;  // from CUPTI's clock to the steady one
  std::uint32_t tag_ = Activity::kNoTag;
  std::mutex mutex_;  // buffers come back on a thread of CUPTI's
  std::vector<Record> records_;
  std::unordered_map<std::uint32_t, std::uint32_t> tag_of_call_;
  std::unordered_map<std::uint64_t, std::uint32_t> tag_of_node_;
};

// Lives as long as the program: CUPTI may call back until the end.
ActivityLog* make_log(std::string& why) {
  const std::optional<Cupti> cupti = load(why);
  if (!cupti) return nullptr;
  auto log = std::make_unique<CuptiLog>(*cupti);
  why = log->open();
  return why.empty() ? log.release() : nullptr;
}

}  // namespace

ActivityLog* cupti_log(std::string& why) {
  static std::string reason;
  static ActivityLog* const log = make_log(reason);
  if (log == nullptr) why = fmt::format("CUPTI cannot be used ({})", reason);
  return log;
}

}  // namespace neap

#else

namespace neap {

ActivityLog* cupti_log(std::string& why) {
  why = "this program was built without CUPTI";
  return nullptr;
}

}  // namespace neap

#endif
