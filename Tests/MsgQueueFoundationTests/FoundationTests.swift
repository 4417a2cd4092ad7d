import Foundation
import MsgQueue
import MsgQueueFoundation
import Testing

/// Data, dates, coded bodies and localized errors.
@Suite final class FoundationTests {
    private struct Order: Codable, Equatable, CustomStringConvertible {
        var item: String
        var count: Int
        var at: Date
        var page: URL?
        var description: String { "\(count) × \(item)" }
    }

    private let directory = FileManager.default.temporaryDirectory.appendingPathComponent("msgqueue-\(UUID().uuidString)")

    init() throws { try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(at: directory) }

    private func open(_ transport: MessageQueue.Transport? = nil) throws -> MessageQueue {
        let path = directory.appendingPathComponent("outbox.db").path
        let queue = try MessageQueue(path: path, options: .init(mode: .manual), transport: transport)
        // Nothing is sent before a test says so.
        try queue.setConnectivity(.offline)
        return queue
    }

    private let order = Order(
        item: "tea/x", count: 2, at: Date(timeIntervalSince1970: 1_700_000_000.25), page: URL(string: "https://a.example/b"))

    @Test func X13_bodies_are_data() async throws {
        let queue = try open { delivery in delivery.data == Data([3, 0, 255]) ? .sent : .reject() }
        let id = try queue.enqueue(MessageQueue.Draft(Data([1, 0, 255]), conversation: "ana", priority: 3))
        #expect(try queue.message(id: id).data == Data([1, 0, 255]))
        #expect(try queue.message(id: id).priority == 3)
        try queue.edit(id, body: Data([3, 0, 255]))
        #expect(try queue.list(.init(withoutBodies: true)).first?.data == nil)
        #expect(MessageQueue.Draft("é").data == Data([0xc3, 0xa9]))
        // Literals of arrays are still bytes.
        let bytes = MessageQueue.Draft([1, 2])
        #expect(bytes.body == [1, 2] && MessageQueue.Draft([]).body == [])
        try queue.setConnectivity(.online)
        #expect(try await queue.drain().sent == 1)
        try await queue.close()
    }

    @Test func X13_timestamps_and_dates_are_converted() {
        for milliseconds: Int64 in [0, 1, -1, 1_700_000_000_250, 253_402_300_799_999, -62_135_596_800_000] {
            let timestamp = MessageQueue.Timestamp(millisecondsSince1970: milliseconds)
            #expect(MessageQueue.Timestamp(Date(timestamp)) == timestamp)
        }
        #expect(MessageQueue.Timestamp(Date(timeIntervalSince1970: 1.0006)).millisecondsSince1970 == 1001)
        #expect(MessageQueue.Timestamp(.distantFuture) > .now)
    }

    @Test func X13_a_value_is_enqueued_and_arrives_as_it_was() async throws {
        let order = order
        let queue = try open { delivery in try delivery.decode(Order.self) == order ? .sent : .reject(.local) }
        let id = try queue.enqueue(encoding: order, conversation: "ana", metadata: ["type": "order"], id: "a")
        let message = try queue.message(id: id)
        #expect(message.text == #"{"at":"2023-11-14T22:13:20.250Z","count":2,"item":"tea/x","page":"https://a.example/b"}"#)
        #expect(id == "a" && message.conversation == "ana" && message.metadata == ["type": "order"])
        let decoded: Order = try message.decode()
        #expect(decoded == order)
        let second = try await queue.enqueueWithoutBlocking(encoding: order)
        #expect(try queue.message(id: second).body == message.body)
        try queue.setConnectivity(.online)
        #expect(try await queue.drain().sent == 2)
        try await queue.close()
    }

    @Test func H10_data_and_coded_values_have_times_of_their_own() async throws {
        let order = order
        let queue = try open { _ in .sent }
        let week = MessageQueue.Timestamp(Date(timeIntervalSince1970: 1_700_000_000))
        let data = try queue.enqueue(MessageQueue.Draft(Data([1]), conversation: "ana", time: week))
        #expect(try queue.message(id: data).time == week)
        let received = try queue.record(encoding: order, sender: "eve", conversation: "ana", id: "r", time: week - .seconds(1))
        let message = try queue.message(id: received)
        #expect(received == "r" && message.time == week - .seconds(1) && message.sender == "eve")
        #expect(try message.decode(Order.self) == order)
        #expect(try queue.list(.init(statuses: .all, order: .time)).map(\.id) == [received, data])
        #expect(throws: EncodingError.self) { try queue.record(encoding: Double.nan, sender: "eve") }
        try await queue.close()
    }

    @Test func M14_a_coded_value_is_sent_and_waited_for() async throws {
        let order = order
        let queue = try open { delivery in try delivery.decode(Order.self) == order ? .sent : .reject(.local) }
        let offline = try await queue.send(encoding: order, conversation: "ana", metadata: ["type": "order"], timeout: .seconds(60))
        #expect(offline.status == .queued && offline.explanation?.reason == .offline && offline.metadata == ["type": "order"])
        try queue.setConnectivity(.online)
        let sent = try await queue.send(encoding: order, conversation: "ben", id: "a", timeout: .seconds(60))
        #expect(sent.id == "a" && sent.status == .sent)
        await #expect(throws: EncodingError.self) { try await queue.send(encoding: Double.nan) }
        try await queue.close()
    }

    @Test func X13_dates_may_have_no_fraction_and_other_encoders_may_be_used() throws {
        let queue = try open()
        let id = try queue.enqueue(#"{"item":"a","count":1,"at":"2023-11-14T22:13:20Z"}"#)
        #expect(try queue.message(id: id).decode(Order.self).at == Date(timeIntervalSince1970: 1_700_000_000))
        let plain = try queue.message(id: try queue.enqueue(encoding: order, encoder: JSONEncoder()))
        #expect(try plain.decode(Order.self, decoder: JSONDecoder()) == order)
        #expect(throws: DecodingError.self) { try plain.decode(Order.self) }
        #expect(throws: EncodingError.self) { try queue.enqueue(encoding: Double.nan) }
        #expect(throws: MessageQueue.Error.self) { try queue.enqueue(encoding: order, id: "") }
        #expect(try queue.counts().queued == 2)
        let bodiless = try #require(try queue.list(.init(withoutBodies: true)).first)
        #expect(throws: DecodingError.self) { try bodiless.decode(Order.self) }
        try queue.syncClose()
    }

    @Test func X13_previews_of_coded_bodies_are_readable() throws {
        let queue = try open()
        let message = try queue.message(id: try queue.enqueue(encoding: order))
        #expect(message.preview(as: Order.self) == "2 × tea/x")
        #expect(message.preview(as: Order.self) { "\($0.item)\n\($0.count)" } == "tea/x 2")
        #expect(message.preview(as: Order.self) { _ in String(repeating: "x", count: 500) }.count == 100)
        #expect(message.preview(as: [Int].self) == message.preview && message.preview.hasPrefix(#"{"at":"2023-11-14T22:13:20.250Z""#))
        let bodiless = try #require(try queue.list(.init(withoutBodies: true)).first)
        #expect(bodiless.preview(as: Order.self) == message.preview)
        try queue.syncClose()
    }

    @Test func X13_an_error_is_localized() throws {
        for code in MessageQueue.Error.Code.allCases {
            let error: any Error = MessageQueue.Error(code, "the detail")
            #expect(error.localizedDescription.hasSuffix(".") && !error.localizedDescription.contains("the detail"))
            #expect((error as? any LocalizedError)?.failureReason == "the detail")
        }
        let queue = try open()
        try queue.syncClose()
        do { try queue.enqueue("late") } catch { #expect((error as any Error).localizedDescription == "The queue is closed.") }
    }
}
