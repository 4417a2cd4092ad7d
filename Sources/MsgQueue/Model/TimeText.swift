/// The text of a time span in error details and logs.
package enum TimeText {
    /// Returns the span without rounding, in seconds or in whole minutes, hours or days: "0.25 s", "90 s", "5 min", "1 d".
    package static func exact(_ milliseconds: Int64) -> String {
        let units: [(length: Int64, name: String)] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min")]
        if let unit = units.first(where: { milliseconds != 0 && milliseconds % $0.length == 0 }) {
            return "\(milliseconds / unit.length) \(unit.name)"
        }
        let thousandths = (milliseconds % 1000).magnitude
        var fraction = thousandths == 0 ? "" : ".\(String("\(1000 + thousandths)".dropFirst()))"
        while fraction.hasSuffix("0") { fraction.removeLast() }
        return "\(milliseconds < 0 ? "-" : "")\((milliseconds / 1000).magnitude)\(fraction) s"
    }
}
