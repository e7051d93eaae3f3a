#include "kernels/bench/device_graph.h"

#include <algorithm>
#include <type_traits>
#include <vector>

namespace lynx::cuda {
namespace {

template <typename Handle, auto kDestroy>
struct Owned {
  using Pointee = std::remove_pointer_t<Handle>;
  struct Destroy {
    void operator()(Pointee* handle) const { kDestroy(handle); }
  };
  using Type = std::unique_ptr<Pointee, Destroy>;
};

using Stream = Owned<cudaStream_t, cudaStreamDestroy>::Type;
using Event = Owned<cudaEvent_t, cudaEventDestroy>::Type;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>::Type;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>::Type;

Event make_event() {
  cudaEvent_t event = nullptr;
  require(cudaEventCreate(&event), "cudaEventCreate");
  return Event(event);
}

}  // namespace

double graph_microseconds(const std::function<void(cudaStream_t)>& enqueue, unsigned replays) {
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  const Stream stream_owner(stream);
  cudaGraph_t graph = nullptr;
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  enqueue(stream);
  require(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  const Graph graph_owner(graph);
  cudaGraphExec_t exec = nullptr;
  require(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  const GraphExec exec_owner(exec);
  const Event start = make_event();
  const Event stop = make_event();
  std::vector<float> milliseconds;
  for (unsigned i = 0; i < replays + 2; ++i) {
    float ms = 0;
    require(cudaEventRecord(start.get(), stream), "cudaEventRecord");
    require(cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
    require(cudaEventRecord(stop.get(), stream), "cudaEventRecord");
    require(cudaEventSynchronize(stop.get()), "cudaEventSynchronize");
    require(cudaEventElapsedTime(&ms, start.get(), stop.get()), "cudaEventElapsedTime");
    if (i >= 2) milliseconds.push_back(ms);
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return milliseconds[milliseconds.size() / 2] * 1e3;
}

}  // namespace lynx::cuda
