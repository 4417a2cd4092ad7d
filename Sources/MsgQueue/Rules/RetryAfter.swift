/// Parses the `Retry-After` header (RFC 9110, 10.2.3): seconds or an HTTP date.
package enum RetryAfter {
    /// Returns the delay in milliseconds from `now` (milliseconds since 1970; nil: the clock is wrong, and dates say nothing); nil if the
    /// header is invalid.
    package static func parse(_ header: String, now: Int64?) -> Int64? {
        let text = header.utf8.drop { $0 == 0x20 || $0 == 0x09 }
        let trimmed = Substring(text).utf8.reversed().drop { $0 == 0x20 || $0 == 0x09 }.reversed()
        let bytes = Array(trimmed)
        guard !bytes.isEmpty, bytes.count < 64 else { return nil }
        if bytes.allSatisfy({ (0x30...0x39).contains($0) }) {
            // More seconds than fit into 64 bits are limited like any long delay.
            let seconds = Int64(String(decoding: bytes, as: UTF8.self)) ?? Options.week
            return min(seconds, Options.week) * 1000
        }
        guard let now, let at = date(bytes) else { return nil }
        return max(0, at.subtractingClamped(now))
    }

    /// Returns the milliseconds since 1970 of an IMF-fixdate ("Sun, 06 Nov 1994 08:49:37 GMT"), an RFC 850 date ("Sunday, 06-Nov-94
    /// 08:49:37 GMT") or an asctime date ("Sun Nov  6 08:49:37 1994").
    static func date(_ bytes: [UInt8]) -> Int64? {
        let words = bytes.split { $0 == 0x20 || $0 == 0x2d || $0 == 0x2c }.map { String(decoding: $0, as: UTF8.self) }
        let fields: (day: String, month: String, year: String, time: String)
        if words.count == 6, words[5] == "GMT" {
            fields = (words[1], words[2], words[3], words[4])
        } else if words.count == 5 {
            fields = (words[2], words[1], words[4], words[3])
        } else {
            return nil
        }
        let clock = fields.time.split(separator: ":", omittingEmptySubsequences: false)
        guard clock.count == 3,
            let day = number(fields.day, 1...31), let month = months.firstIndex(of: fields.month),
            var year = number(fields.year, 0...9999),
            let hour = number(clock[0], 0...23), let minute = number(clock[1], 0...59),
            let second = number(clock[2], 0...60)
        else { return nil }
        if fields.year.utf8.count == 2 { year += year < 70 ? 2000 : 1900 }
        guard year >= 1970 else { return 0 }
        return (Calendar.days(year: year, month: Int64(month) + 1, day: day) * 86_400 + hour * 3600 + minute * 60 + second) * 1000
    }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    private static func number(_ text: some StringProtocol, _ range: ClosedRange<Int64>) -> Int64? {
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let value = Int64(text), range.contains(value) else {
            return nil
        }
        return value
    }
}
