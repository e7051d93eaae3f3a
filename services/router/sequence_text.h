// The text of one sequence as it grows: whole characters only, cut at the first stop string or token. One
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/text/detokenizer.h"
#include "common/text/stop_matcher.h"
#include "services/router/sequence_spec.h"

namespace lynx {

class SequenceText {
 public:
  struct Rules {
    std::vector<std::string> stops;    // end the text
    std::vector<TokenId> stop_tokens;  // as well
    bool keep_stop = false;            // what ended the text is part of it
    bool skip_special = true;          // control tokens have no text
    std::uint32_t min_tokens = 0;      // nothing stops before so many
  };
  SequenceText(const Tokenizer& tokenizer, Rules rules);

  struct Out {
    std::string text;      // safe to send
    bool stopped = false;  // a stop string or token ended the text
  };
  // The token that ends the sequence, end of sequence or a stop token, has no text of its own without
  // keep_stop.
  Out push(const GeneratedToken& token);

 private:
  Detokenizer detokenizer_;
  StopMatcher matcher_;
  const Rules rules_;
};

}  // namespace lynx
