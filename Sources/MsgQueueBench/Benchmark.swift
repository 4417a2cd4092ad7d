import Glibc

/// Measures the queue beside bare SQLite and a raw file, in interleaved rounds on the same disk.
@main
struct Benchmark {
    private static let usage = """
        usage: msgqueue-bench recovery
               msgqueue-bench calls [--directory DIRECTORY] [--deepest N] [--only CALL,CALL]
               msgqueue-bench series [--seconds S] [--rounds N] [--directory DIRECTORY] [--deepest N]
               msgqueue-bench [--work W1,W2,W3,W4] [--seconds S] [--rounds N] [--directory DIRECTORY] [--json]

          --work       what to measure (default: all of W1, W2, W3, W4)
          --seconds    length of each sample, 0.05 to 60 (default 0.5)
          --rounds     samples of each contender, 1 to 1000 (default 5); the table shows medians
          --directory  an existing directory on the disk to measure (default: the working directory)
          --json       print one JSON object instead of tables

        series: one JSON object with the throughput by threads, the cost of an enqueue by the number of queued messages (up to --deepest,
        default 1000000), a drain with 16 attempts in flight (W4b), and the latencies of an enqueue while a drain runs (F8) and from
        enqueue to the transport, of messages that follow one another at once (W8) and after 2 ms (W8 spaced).

        calls: for each call that reads or changes the store, the median and the 99th percentile of its time, the longest time for which
        one thread held the engine's lock meanwhile, and the most processor time that it used then, in milliseconds, with 1000, 100000 and
        1000000 messages (up to --deepest) in 1, 1000 and 100000 conversations. --only: these calls, with --deepest messages.

        recovery: the table of the simulation kit's documentation. 1,000 clients of one receiver reconnect at the same moment, with
        several retry policies, in virtual time.
        """

    private static let contenders: [(name: String, type: any (Contender & SendableMetatype).Type)] = [
        ("queue", QueueContender.self), ("SQLite", SQLiteContender.self), ("SQLite, group commit", GroupContender.self),
        ("raw file", FileContender.self), ("raw file, group commit", GroupFileContender.self),
    ]

    private var works = Work.allCases
    private var seconds = 0.5
    private var rounds = 5
    private var directory = "."
    private var deepest = 1_000_000
    private var only: Set<String> = []
    private var isJSON = false

    private var series: Series { Series(seconds: seconds, rounds: rounds, directory: directory, deepest: deepest) }

    static func main() {
        var arguments = CommandLine.arguments.dropFirst()
        if arguments.contains("--help") || arguments.contains("-h") { return print(usage) }
        do {
            if arguments == ["recovery"] { return print(try Recovery.tables()) }
            var benchmark = Benchmark()
            let part = arguments.first.flatMap { ["series", "calls"].contains($0) ? $0 : nil }
            if part != nil { arguments.removeFirst() }
            while let name = arguments.popFirst() { try benchmark.set(name) { arguments.popFirst() } }
            if part == "series" { return print(try benchmark.series.json()) }
            if part == "calls" {
                return try CallTimes(directory: benchmark.directory, deepest: benchmark.deepest, only: benchmark.only).run()
            }
            try benchmark.run()
        } catch {
            let message = Array("msgqueue-bench: \(error)\n".utf8)
            _ = write(STDERR_FILENO, message, message.count)
            exit(error is UsageError ? 2 : 1)
        }
    }

    private struct UsageError: Error, CustomStringConvertible { let description: String }

    private mutating func set(_ name: String, _ next: () -> String?) throws {
        if name == "--json" {
            isJSON = true
            return
        }
        guard ["--work", "--seconds", "--rounds", "--directory", "--deepest", "--only"].contains(name) else {
            throw UsageError(description: "unknown option \(name)\n\(Self.usage)")
        }
        guard let value = next() else { throw UsageError(description: "\(name) needs a value") }
        switch name {
        case "--work":
            works = try value.split(separator: ",").map { word in
                guard let work = Work(rawValue: String(word)) else { throw UsageError(description: "unknown work \(word)") }
                return work
            }
        case "--seconds":
            guard let number = Double(value), (0.05...60).contains(number) else {
                throw UsageError(description: "--seconds must be 0.05 to 60, got \(value)")
            }
            seconds = number
        case "--rounds":
            guard let number = Int(value), (1...1000).contains(number) else {
                throw UsageError(description: "--rounds must be 1 to 1000, got \(value)")
            }
            rounds = number
        case "--deepest":
            guard let number = Int(value), (0...10_000_000).contains(number) else {
                throw UsageError(description: "--deepest must be 0 to 10000000, got \(value)")
            }
            deepest = number
        case "--only": only = Set(value.split(separator: ",").map(String.init))
        default: directory = value
        }
    }

    private func run() throws {
        var all: [Figures] = []
        for work in works {
            let figures = try measure(work)
            all += figures
            if !isJSON { show(work, figures) }
        }
        if isJSON { print(json(all)) }
    }

    private func measure(_ work: Work) throws -> [Figures] {
        var figures = Self.contenders.map { Figures(contender: $0.name, work: work) }
        for _ in 0..<rounds {
            for (index, contender) in Self.contenders.enumerated() {
                let place = try Folder(in: directory)
                defer { place.remove() }
                let measurement = Measurement(work: work, seconds: seconds)
                guard let sample = try measurement.run(contender.type, directory: place.path) else { continue }
                figures[index].perSecond.append(sample.perSecond)
                figures[index].cpuMicroseconds.append(sample.cpu)
            }
        }
        return figures.filter { !$0.perSecond.isEmpty }
    }

    private func show(_ work: Work, _ figures: [Figures]) {
        let bare = Figures.median(figures.first { $0.contender == "SQLite" }?.perSecond ?? [])
        print("\(work.rawValue)  \(work.title)")
        for figure in figures {
            let rate = Figures.median(figure.perSecond)
            let ratio = bare > 0 ? "\(decimal(rate / bare, 2)) x SQLite" : ""
            print(
                "  \(padded(figure.contender, 24, left: false))\(padded(decimal(rate, 0), 10))/s"
                    + "\(padded(decimal(Figures.median(figure.cpuMicroseconds), 1), 9)) us CPU each   \(ratio)")
        }
    }

    private func json(_ figures: [Figures]) -> String {
        let rows = figures.map { figure in
            """
            {"work":"\(figure.work.rawValue)","contender":"\(figure.contender)",\
            "per_second":\(decimal(Figures.median(figure.perSecond), 1)),\
            "cpu_microseconds":\(decimal(Figures.median(figure.cpuMicroseconds), 2)),\
            "samples":[\(figure.perSecond.map { decimal($0, 1) }.joined(separator: ","))]}
            """
        }
        return "{\"seconds\":\(seconds),\"rounds\":\(rounds),\"body_size\":\(Work.bodySize),\"results\":[\(rows.joined(separator: ","))]}"
    }

    private func padded(_ text: String, _ width: Int, left: Bool = true) -> String {
        let space = String(repeating: " ", count: max(width - text.count, 0))
        return left ? space + text : text + space
    }

    /// Formats a number with `digits` decimals.
    private func decimal(_ value: Double, _ digits: Int) -> String {
        guard value.isFinite else { return "0" }
        var scale = 1.0
        for _ in 0..<digits { scale *= 10 }
        guard digits > 0 else { return String(format(value.rounded())) }
        let scaled = (value * scale).rounded()
        let whole = (scaled / scale).rounded(.towardZero)
        let rest = String(format(abs(scaled - whole * scale)))
        return "\(format(whole)).\(String(repeating: "0", count: max(digits - rest.count, 0)))\(rest)"
    }

    private func format(_ value: Double) -> Int64 { Int64(exactly: value) ?? 0 }
}
