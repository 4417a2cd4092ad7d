import Testing

@testable import MsgQueue

/// H8 on the network of this machine. (The C tests change networks, in namespaces.)
@Suite struct MonitorTests {
    private let directory = TemporaryDirectory()

    private func summary(_ log: EventLog) -> MessageQueue.Network? {
        log.events.lazy.compactMap { if case .connectivity(let network) = $0 { network } else { nil } }.last
    }

    @Test func H8_the_monitor_reports_the_current_state_and_set_connectivity_is_refused() async throws {
        let queue = try MessageQueue(path: directory.store)
        let log = EventLog(queue.events)
        try queue.startMonitor()
        try queue.startMonitor()
        #expect(await eventually { summary(log)?.connectivity ?? .unknown != .unknown }, "it is known: online or offline")
        #expect(refusal { try queue.setConnectivity(.online) } == .conflict)
        let last = summary(log)
        try queue.stopMonitor()
        try queue.stopMonitor()
        try queue.setConnectivity(.unknown)
        try queue.setConnectivity(.offline)
        #expect(await eventually { summary(log)?.connectivity == .offline })
        #expect(last != nil)
        try await queue.close()
        #expect(refusal { try queue.startMonitor() } == .closed)
        #expect(refusal { try queue.stopMonitor() } == .closed)
    }

    @Test func H8_a_closed_monitor_leaks_nothing() async throws {
        await #expect(processExitsWith: .success) {
            let directory = TemporaryDirectory()
            func cycle() async throws {
                let queue = try MessageQueue(path: directory.store)
                for _ in 0..<20 {
                    try queue.startMonitor()
                    try queue.stopMonitor()
                }
                try queue.startMonitor()
                try await queue.close()
            }
            try await cycle()
            let before = ProcessTable.descriptors
            for _ in 0..<20 { try await cycle() }
            guard await eventually({ ProcessTable.descriptors <= before }) else { throw Violation("descriptors are left") }
        }
    }
}
