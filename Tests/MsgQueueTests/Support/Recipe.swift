import Foundation

@testable import MsgQueue

/// The options of the recipes. `bindings/python/tests/recipes.py` reads them from the programs of the page, and a test there
/// compares them.
enum Recipe: String, CaseIterable {
    case manual, ask, retry, history, background, automatic

    struct Unreadable: Error {
        let field: String
    }

    func options() throws -> Options {
        var options = Options()
        for (name, value) in try fields() { try Self.set(name, value, in: &options) }
        if let backoff = try backoff() { options.backoff = backoff }
        return options
    }

    static func names() throws -> Set<String> { Set(try read().keys) }

    /// Above this file: Support, MsgQueueTests, Tests.
    private static func read() throws -> [String: [String: Any]] {
        var tests = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        for _ in 0..<3 { tests.deleteLastPathComponent() }
        let data = try Data(contentsOf: tests.appendingPathComponent("fixtures/recipes.json"))
        guard let all = try JSONSerialization.jsonObject(with: data) as? [String: [String: Any]] else { throw Unreadable(field: "all") }
        return all
    }

    private func fields() throws -> [String: Any] {
        guard let fields = try Self.read()[rawValue] else { throw Unreadable(field: rawValue) }
        return fields
    }

    /// Sets the fields of msgq_options that recipes use; any other one is an error.
    private static func set(_ name: String, _ value: Any, in options: inout Options) throws {
        func number() throws -> Int64 {
            guard let number = value as? Int64 else { throw Unreadable(field: name) }
            return number
        }
        switch name {
        case "mode":
            guard let mode = Mode(rawValue: Int32(try number())) else { throw Unreadable(field: name) }
            options.mode = mode
        case "initial_connectivity":
            guard let connectivity = Connectivity(rawValue: Int32(try number())) else { throw Unreadable(field: name) }
            options.initialConnectivity = connectivity
        case "exhausted": options.exhausted = try number() == 1 ? .discard : .keep
        case "refused": options.refused = try number() == 1 ? .discard : .keep
        case "strict_order": options.strictOrder = value as? Bool == true
        case "max_in_flight": options.maxInFlight = Int(try number())
        case "max_retries": options.maxRetries = Int(try number())
        case "drain_batch": options.drainBatch = Int(try number())
        case "trigger_interval_ms": options.triggerInterval = try number()
        case "prompt_timeout_ms": options.promptTimeout = try number()
        case "on_demand_timeout_ms": options.onDemandTimeout = try number()
        case "keep_sent": options.keepSent = value as? UInt64 == UInt64.max ? nil : try number()
        case "keep_sent_ms": options.keepSentFor = try number() < 0 ? nil : number()
        case "backoff", "ladder_ms", "backoff_base_ms", "backoff_factor", "backoff_cap_ms": break
        default: throw Unreadable(field: name)
        }
    }

    private func backoff() throws -> Backoff? {
        let fields = try fields()
        switch fields["backoff"] as? Int {
        case nil: return nil
        case 1: return .ladder(fields["ladder_ms"] as? [Int64] ?? [])
        case 2:
            return .exponential(
                base: fields["backoff_base_ms"] as? Int64 ?? 5_000, factor: fields["backoff_factor"] as? Double ?? 2,
                cap: fields["backoff_cap_ms"] as? Int64 ?? 3_600_000)
        default: throw Unreadable(field: "backoff")
        }
    }
}

extension EngineBench {
    convenience init(_ recipe: Recipe) throws {
        let options = try recipe.options()
        try self.init {
            $0 = options
            $0.callbacks = .poll
        }
    }
}
