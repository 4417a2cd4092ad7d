/// The names of enumerators in JSON: those of the header in lower case, without their prefix.
package enum WireWords {
    package static let statuses = MessageStatus.allCases.map { snake($0) }
    package static let failures = FailureKind.allCases.map(\.word)
    package static let reasons = Explanation.Reason.allCases.map { $0 == .done ? "none" : snake($0) }
    package static let codes = QueueError.Code.allCases.map { upper($0) }

    package static func word(_ status: MessageStatus) -> String { element(statuses, status.rawValue) }
    package static func word(_ kind: StoredChange.Kind) -> String { snake(kind) }
    package static func word(_ kind: FailureKind) -> String { element(failures, kind.rawValue) }
    package static func word(_ reason: Explanation.Reason) -> String { element(reasons, reason.rawValue) }
    /// "NOT_FOUND".
    package static func word(_ code: QueueError.Code) -> String { element(codes, code.rawValue - 1) }
    package static func word(_ outcome: Attempt.Outcome) -> String { snake(outcome) }
    package static func word(_ arrival: Attempt.Arrival) -> String { snake(arrival) }
    package static func word(_ stop: Report.Stop) -> String { snake(stop) }
    package static func word(_ connectivity: Connectivity) -> String { snake(connectivity) }
    package static func word(_ link: Link) -> String { snake(link) }
    package static func word(_ mode: Mode) -> String { snake(mode) }

    package static func failure(_ word: String) -> FailureKind? { FailureKind.allCases.first { self.word($0) == word } }
    package static func reason(_ word: String) -> Explanation.Reason? { Explanation.Reason.allCases.first { self.word($0) == word } }
    package static func status(_ word: String) -> MessageStatus? { MessageStatus.allCases.first { self.word($0) == word } }

    /// The enumerators are numbered from 0 without gaps.
    private static func element(_ words: [String], _ number: Int32) -> String {
        let index = Int(number)
        return words.indices.contains(index) ? words[index] : "unknown"
    }

    /// Returns "rate_limit" for `rateLimit`.
    private static func snake(_ value: some Any) -> String {
        var text = ""
        for scalar in String(describing: value).unicodeScalars {
            if (0x41...0x5a).contains(scalar.value), let small = Unicode.Scalar(scalar.value + 0x20) {
                text += "_"
                text.unicodeScalars.append(small)
            } else {
                text.unicodeScalars.append(scalar)
            }
        }
        return text
    }

    private static func upper(_ value: some Any) -> String {
        String(decoding: snake(value).utf8.map { (0x61...0x7a).contains($0) ? $0 - 0x20 : $0 }, as: UTF8.self)
    }
}
