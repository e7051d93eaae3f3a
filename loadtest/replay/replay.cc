#include "loadtest/replay/replay.h"

#include <utility>

namespace lynx {
namespace {

constexpr std::chrono::milliseconds kScrapeTimeout{5000};

}  // namespace

Replay::Replay(EventLoop& loop, const Clock& clock, ReplayPlan plan, const PromptWriter& writer,
               std::function<void(const LiveFrame&)> show_progress)
    : loop_(loop),
      clock_(clock),
      plan_(std::move(plan)),
      writer_(writer),
      show_(std::move(show_progress)),
      client_(loop, plan_.target.host, plan_.target.port),
      scraper_(loop, plan_.metrics),
      sampler_(loop, plan_.metrics) {
  frame_.target = plan_.target.text();
  frame_.warm_up_s = plan_.facts.warm_up_s;
  if (!plan_.workload.requests.empty())
    frame_.planned_s = std::chrono::duration<double>(plan_.workload.requests.back().at).count();
  for (const Endpoint& worker : plan_.metrics) histories_.push_back({.name = worker.text(), .samples = {}});
}

void Replay::start(std::function<void()> ready, std::function<void(Result<Report>)> done) {
  ready_ = std::move(ready);
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
  if (done_) ready_();
}

void Replay::begin() {
  if (done_) drive();
}

void Replay::drive() {
  driver_ = std::make_unique<LoadDriver>(loop_, client_, clock_, plan_.driver, plan_.workload,
                                         plan_.facts.slos, writer_);
  driving_ = true;
  if (plan_.progress.count() > 0) progress_ = loop_.every(plan_.progress, [this] { show_progress(); });
  if (plan_.sample.count() > 0 && !plan_.metrics.empty()) {
    const auto sample = [this] {
      sampler_.scrape(kScrapeTimeout, [this](const auto& texts) { take_sample(texts); });
    };
    sample();
    sampling_ = loop_.every(plan_.sample, [this, sample] {
      if (!sampler_.busy()) sample();
    });
  }
  // What the workers did for the warm-up is no part of the run's figures.
  if (plan_.driver.warm_up.count() > 0)
    warm_up_ = loop_.after(plan_.driver.warm_up, [this] {
      scraper_.scrape(kScrapeTimeout, [this](std::vector<Result<std::string>> texts) {
        before_ = std::move(texts);
        if (!driving_) scrape_after();  // the run has ended meanwhile
      });
    });
  driver_->start([this] { on_driven(); });
}

void Replay::take_sample(const std::vector<Result<std::string>>& texts) {
  const double at = seconds(driver_->progress().elapsed);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto& samples = histories_[i].samples;
    // One that did not answer keeps its last figures, so that all the workers have their samples in step.
    WorkerSample sample = samples.empty() ? WorkerSample{} : samples.back();
    if (texts[i]) {
      MetricsText text;
      text.add(*texts[i]);
      // The name that the worker gives itself, where its metrics carry it.
      const auto names = text.by_label("lynx_build_info", "worker");
      if (names.size() == 1 && !names.begin()->first.empty()) histories_[i].name = names.begin()->first;
      sample = reduce(text, at);
    }
    sample.at_s = at;
    samples.push_back(std::move(sample));
  }
}

void Replay::on_driven() {
  driving_ = false;
  plan_.facts.duration_s = seconds(driver_->progress().elapsed);
  if (progress_) show_progress();
  progress_.reset();
  sampling_.reset();
  warm_up_.reset();
  if (!scraper_.busy()) scrape_after();
}

void Replay::scrape_after() {
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
  plan_.facts.metrics_asked = texts.size();
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

void Replay::show_progress() {
  frame_.progress = driver_->progress();
  const double step = seconds(frame_.progress.elapsed - last_.elapsed);
  const auto pieces = static_cast<double>(frame_.progress.pieces - last_.pieces);
  frame_.tokens_per_s.push_back(step > 0 ? pieces / step : 0);
  frame_.in_flight.push_back(static_cast<double>(frame_.progress.in_flight));
  frame_.recent = driver_->live().recent(clock_.now());
  frame_.fleet = fleet_curves(histories_);
  frame_.workers = worker_curves(histories_);
  last_ = frame_.progress;
  show_(frame_);
}

}  // namespace lynx
