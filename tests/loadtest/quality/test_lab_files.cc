// What the laboratory reads and writes.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "loadtest/quality/generation.h"
#include "loadtest/quality/lab_report.h"
#include "loadtest/quality/policy_settings.h"
#include "tests/support/paths.h"

namespace lynx {
namespace {

class LabFiles : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) {
    const auto path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }
  static std::string npy(const std::vector<std::uint16_t>& values, std::string type = "'<u2'") {
    std::string header = "{'descr': " + type + ", 'fortran_order': False, 'shape': (" +
                         std::to_string(values.size()) + ",), }";
    header.resize(118, ' ');
    std::string out = "\x93NUMPY";
    out += {'\x01', '\x00', static_cast<char>(118), '\x00'};
    return out + header + std::string(reinterpret_cast<const char*>(values.data()), values.size() * 2);
  }
  template <typename F>
  static std::string error_of(const F& f) {
    try {
      f();
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "";
  }

  const std::filesystem::path folder_ = [] {
    auto path = std::filesystem::temp_directory_path() / ("lynx_lab_" + std::to_string(::getpid()));
    std::filesystem::create_directories(path);
    return path;
  }();
  void TearDown() override { std::filesystem::remove_all(folder_); }
};

TEST_F(LabFiles, WindowsStayInsideTheirDocument) {
  std::vector<std::uint16_t> stream;
  for (int d = 0; d < 4; ++d) {
    for (std::uint16_t i = 0; i < 10; ++i)
      stream.push_back(static_cast<std::uint16_t>((0x8000 * (i % 2)) | (d * 16 + i + 1)));
    stream.push_back(0x8000 * (d % 2) | 0);
  }
  // A high bit on the end token hides it; the recipe writes it so only where the loss does not count.
  for (auto& v : stream)
    if (v == 0x8000) v = 0;
  const auto documents = read_held_out(file("held.npy", npy(stream)), 8, 5, 256, 1);
  ASSERT_EQ(documents.size(), 8u);
  for (const auto& d : documents) {
    ASSERT_EQ(d.tokens.size(), 5u);
    for (std::size_t i = 1; i < 5; ++i) EXPECT_EQ(d.tokens[i], d.tokens[0] + i);
  }
}

TEST_F(LabFiles, WrongStreamsAreNamed) {
  const auto read = [&](const std::string& path, std::uint32_t count = 1) {
    return error_of([&] { read_held_out(path, count, 2, 8, 1); });
  };
  EXPECT_NE(read("/nowhere.npy").find("/nowhere.npy: cannot be opened"), std::string::npos);
  EXPECT_NE(read(file("a", "text")).find("not a NumPy array"), std::string::npos);
  EXPECT_NE(read(file("b", npy({1, 2, 3}, "'<f4'"))).find("uint16"), std::string::npos);
  EXPECT_NE(read(file("c", npy({1, 2, 0})), 2).find("1 windows"), std::string::npos);
  EXPECT_NE(read(file("d", npy({1, 9, 0}))).find("vocabulary"), std::string::npos);
}

TEST_F(LabFiles, TasksAndTopicsAreReadOrNamed) {
  EXPECT_EQ(read_tasks(source_path("loadtest/quality/data/tasks.jsonl")).size(), 504u);
  EXPECT_EQ(read_topics(source_path("loadtest/quality/data/topics.json")).names.size(), 8u);
  EXPECT_NE(error_of([&] {
              read_tasks(file("t", "{\"kind\":\"a\",\"question\":\"b\",\"answer\":\"c\"}\n{}\n"));
            }).find(":2: "),
            std::string::npos);
  EXPECT_NE(error_of([&] { read_topics(file("u", "{\"x\": 3}")); }).find("x: expected"), std::string::npos);
}

TEST(PolicySettingsOf, DefaultComesFirstAndEveryPolicyHasSome) {
  for (const RouterShape shape :
       {RouterShape{.experts = 64, .top_k = 8}, RouterShape{.experts = 32, .top_k = 2},
        RouterShape{.experts = 16, .top_k = 1}})
    for (const char* name : {"off", "lynx", "energy", "share", "oea", "xshare", "sweep", "top_k_reduced"}) {
      const auto settings = settings_of(name, shape, false);
      ASSERT_FALSE(settings.empty()) << name;
      EXPECT_TRUE(settings[0].is_default);
      EXPECT_EQ(settings_of(name, shape, true).size(), 1u);
    }
  EXPECT_THROW(settings_of("best", {.experts = 8, .top_k = 2}, false), std::runtime_error);
}

TEST(PolicySettingsOf, ARuleOfWeightsMakesACurveOfItsOwn) {
  const RouterShape shape{.experts = 64, .top_k = 8};
  const auto kept = settings_of("energy/kept", shape, false);
  EXPECT_EQ(kept[0].name, "energy/kept");
  EXPECT_EQ(kept[0].label, "energy/kept x1.0");
  for (const PolicySetting& s : kept) EXPECT_EQ(s.policy.weights, WeightRule::kKept);
  EXPECT_EQ(settings_of("energy", shape, true)[0].policy.weights, RoutePolicy{}.weights);
  EXPECT_THROW(settings_of("energy/all", shape, true), std::runtime_error);
}

TEST(LabReport, SaysTheSameInThreeForms) {
  Results r;
  r.model = "a <model>";
  r.shape = {.experts = 64, .top_k = 8};
  r.layers = 1;
  Cell c;
  c.policy = "lynx";
  c.label = "lynx W=1.04";
  c.mix = "mixed";
  c.is_default = true;
  c.batch = 16;
  RunOutcome run;
  run.routed = {50};
  run.activated = {34.5};
  run.documents.resize(3);
  run.documents[0].loss_change = 0.03;
  c.add(run, 100);
  r.cells.push_back(c);
  const auto json = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(json["cells"][0]["experts_after"]["mean"], 34.5);
  EXPECT_EQ(json["cells"][0]["expert_bytes_saved_per_step"]["mean"], 1550);
  EXPECT_NEAR(json["cells"][0]["loss_change"]["mean"].get<double>(), 0.01, 1e-12);
  EXPECT_NE(to_markdown(r).find("| 16 | lynx W=1.04 * | 50.0 | 34.5 |"), std::string::npos);
  const auto html = to_html(r);
  EXPECT_NE(html.find("a &lt;model&gt;"), std::string::npos);
  EXPECT_NE(html.find("<svg"), std::string::npos);
  EXPECT_NE(html.find("lynx W=1.04: 34.50 experts, 0.0100"), std::string::npos);
}

}  // namespace
}  // namespace lynx
