#include "loadtest/replay/replay.h"

#include <cstdio>
#include <utility>

namespace lynx {
namespace {

constexpr std::chrono::milliseconds kScrapeTimeout{5000};

}  // namespace

Replay::Replay(EventLoop& loop, const Clock& clock, ReplayPlan plan, const PromptWriter& writer,
               std::function<void(const std::string&)> print_progress)
    : loop_(loop),
      clock_(clock),
      plan_(std::move(plan)),
      writer_(writer),
      print_(std::move(print_progress)),
      client_(loop, plan_.target.host, plan_.target.port),
      scraper_(loop, plan_.metrics) {}

void Replay::start(std::function<void(Result<Report>)> done) {
  done_ = std::move(done);
  probe_ = std::make_unique<ServerProbe>(loop_, client_, plan_.driver.api_key, plan_.ready_timeout,
                                         [this](const Result<std::string>& model) { on_ready(model); });
}

void Replay::on_ready(const Result<std::string>& model) {
  if (!model) return fail({model.error().code, plan_.target.text() + ": " + model.error().message});
  if (plan_.driver.model.empty()) plan_.driver.model = *model;
  scraper_.scrape(kScrapeTimeout,
                  [this](std::vector<Result<std::string>> texts) { on_scraped_before(std::move(texts)); });
}

void Replay::on_scraped_before(std::vector<Result<std::string>> texts) {
  before_ = std::move(texts);
  if (done_) drive();
}

void Replay::drive() {
  driver_.emplace(loop_, client_, clock_, plan_.driver, plan_.workload, plan_.facts.slos, writer_);
  driving_ = true;
  if (plan_.progress.count() > 0) progress_ = loop_.every(plan_.progress, [this] { print_progress(); });
  driver_->start([this] { on_driven(); });
}

void Replay::on_driven() {
  driving_ = false;
  plan_.facts.duration_s = seconds(driver_->progress().elapsed);
  if (progress_) print_progress();
  progress_.reset();
  scraper_.scrape(kScrapeTimeout,
                  [this](const std::vector<Result<std::string>>& texts) { on_scraped_after(texts); });
}

void Replay::on_scraped_after(const std::vector<Result<std::string>>& texts) {
  std::vector<WorkerScrapes> workers;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i] || !before_[i]) {
      plan_.facts.metrics_problems.push_back((texts[i] ? before_[i] : texts[i]).error().message);
      continue;
    }
    WorkerScrapes scrapes;
    scrapes.before.add(*before_[i]);
    scrapes.after.add(*texts[i]);
    workers.push_back(std::move(scrapes));
  }
  plan_.facts.model = plan_.driver.model;
  plan_.facts.target = plan_.target.text();
  if (done_)
    std::exchange(done_, nullptr)(make_report(plan_.facts, driver_->outcomes(), worker_report(workers)));
}

void Replay::interrupt() {
  plan_.facts.interrupted = true;
  if (driving_) return driver_->stop();
  if (!driver_) fail({ErrorCode::kCancelled, "interrupted before the first request"});
}

void Replay::fail(Error error) {
  probe_.reset();
  if (done_) std::exchange(done_, nullptr)(std::move(error));
}

const std::vector<Outcome>& Replay::outcomes() const { return driver_->outcomes(); }

void Replay::print_progress() {
  const LoadDriver::Progress now = driver_->progress();
  const double step = seconds(now.elapsed - last_.elapsed);
  char line[200];
  std::snprintf(
      line, sizeof line,
      "%7.1f s   sent %zu of %zu   in flight %zu   done %zu   failed %zu   %.0f tokens/s   most late %.1f ms",
      seconds(now.elapsed), now.sent, now.planned, now.in_flight, now.completed, now.failed,
      step > 0 ? static_cast<double>(now.pieces - last_.pieces) / step : 0.0,
      1e3 * seconds(now.worst_lateness));
  last_ = now;
  print_(line);
}

}  // namespace lynx
