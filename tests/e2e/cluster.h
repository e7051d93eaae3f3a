// A whole Lynx on loopback for tests: one router, prefill and decode workers, each a real process.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/e2e/service_process.h"

namespace lynx::testing {

struct ClusterOptions {
  int prefills = 1;
  int decodes = 2;
  std::string policy = "lynx";  // of the decode workers
  std::string transport = "tcp";
  std::vector<std::string> router_flags;  // added to the defaults
  std::vector<std::string> prefill_flags;
  std::vector<std::string> decode_flags;
};

struct Worker {
  std::string name;
  std::string binary;
  std::uint16_t http_port = 0;
  std::vector<std::string> argv;
  std::vector<ServiceProcess> lives;  // the last one is the current
  ServiceProcess& process() { return lives.back(); }
};

class Cluster {
 public:
  // Starts every process and waits until the router is ready with all workers. Throws with the logs' place
  // otherwise.
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();

  std::uint16_t api_port() const { return router_.http_port; }
  Worker& router() { return router_; }
  Worker& prefill(int i) { return prefills_.at(i); }
  Worker& decode(int i) { return decodes_.at(i); }
  std::vector<Worker*> workers();

  void kill(Worker& worker);     // SIGKILL, reaped
  void restart(Worker& worker);  // a new incarnation under the same name
  bool wait_ready(std::chrono::seconds timeout);
  std::string gone();  // which workers have ended, and the logs that say why

  // The worker's /debug/kv, and whether every block of every running worker is free (polled until the
  // timeout).
  static nlohmann::json debug_kv(const Worker& worker);
  bool all_free(std::chrono::seconds timeout);

  // Sum over labels of a metric of one process; 0 when it is not there.
  static double metric(const Worker& worker, const std::string& name, const std::string& label_part = "");

  // Attempts and streams that the router had to take up with another worker.
  double taken_up() const;

  const std::string& log_folder() const { return log_folder_; }

 private:
  void start(Worker& worker);

  std::string log_folder_;
  Worker router_;
  std::vector<Worker> prefills_, decodes_;
};

std::string model_folder();  // of the shipped model

// What the workers compute on: $LYNX_TEST_BACKEND, else the CPU; with cuda on GPU $LYNX_TEST_GPUS, one for
// all or "PREFILL,DECODE", else the first.
std::string backend();

// How its KV gets to and from there (kv.path): $LYNX_TEST_KV_PATH, one for all or "PREFILL,DECODE"; else
// auto.
std::string kv_path(const std::string& role);

// Multiplies waits: sanitizers slow everything down.
int slowdown();

}  // namespace lynx::testing
