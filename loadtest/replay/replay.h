// One replay, from waiting for the server to the figures: wait, scrape, send everything (scraping as it
// goes), scrape again. Every wait has a deadline; between the first two and the sending it waits for begin(),
// so that several can begin together. Loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/core/clock.h"
#include "common/net/event_loop.h"
#include "loadtest/replay/live_view.h"
#include "loadtest/replay/load_driver.h"
#include "loadtest/replay/metrics_scraper.h"
#include "loadtest/replay/report.h"
#include "loadtest/replay/server_probe.h"
#include "loadtest/replay/worker_series.h"

namespace lynx {

struct ReplayPlan {
  Endpoint target;
  std::vector<Endpoint> metrics;
  DriverOptions driver;  // model empty = ask the server
  std::chrono::milliseconds ready_timeout{30'000};
  std::chrono::milliseconds progress{0};  // time between frames; 0 = none
  std::chrono::milliseconds sample{0};    // time between scrapes during the run; 0 = none
  Workload workload;
  RunFacts facts;  // of trace and options; the run adds the rest
};

class Replay {
 public:
  Replay(EventLoop& loop, const Clock& clock, ReplayPlan plan, const PromptWriter& writer,
         std::function<void(const LiveFrame&)> show_progress);

  // ready() at most once: the run can begin(). done() once: the report, or why the run could not begin.
  void start(std::function<void()> ready, std::function<void(Result<Report>)> done);
  void begin();      // after ready(); nothing happens after done()
  void interrupt();  // ends the run early; the report covers what was sent

  // After done() with a report.
  const std::vector<Outcome>& outcomes() const;
  const std::vector<WorkerHistory>& workers() const { return histories_; }

 private:
  void on_ready(const Result<std::string>& model);
  void on_scraped_before(std::vector<Result<std::string>> texts);
  void drive();
  void take_sample(const std::vector<Result<std::string>>& texts);
  void on_driven();
  void scrape_after();
  void on_scraped_after(const std::vector<Result<std::string>>& texts);
  void show_progress();
  void fail(Error error);

  EventLoop& loop_;
  const Clock& clock_;
  ReplayPlan plan_;
  const PromptWriter& writer_;
  const std::function<void(const LiveFrame&)> show_;
  std::function<void()> ready_;
  std::function<void(Result<Report>)> done_;

  HttpClient client_;
  MetricsScraper scraper_, sampler_;
  std::unique_ptr<ServerProbe> probe_;
  std::unique_ptr<LoadDriver> driver_;  // from the run's beginning
  std::unique_ptr<Timer> progress_, sampling_, warm_up_;
  LoadDriver::Progress last_;  // as shown last
  LiveFrame frame_;
  std::vector<WorkerHistory> histories_;
  std::vector<Result<std::string>> before_;
  bool driving_ = false;
};

}  // namespace lynx
