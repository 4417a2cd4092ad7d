import Foundation
import Testing

@testable import MsgQueue

@Suite struct ControlRequestTests {
    private func request(_ text: String) -> ControlRequest { ControlRequest(line: Array(text.utf8)) }
    private func call(_ text: String) throws -> ControlCall { try request(#"{"id":1,"call":"# + text + "}").call.get() }

    private func waiting(for reason: Explanation.Reason) -> Filter {
        var filter = Filter(withoutBodies: true)
        filter.waitingFor = reason
        return filter
    }

    private func refusal(_ text: String) -> String? {
        do { _ = try call(text) } catch let error as QueueError { return error.code == .invalid ? error.detail : "\(error)" } catch {
            return nil
        }
        return nil
    }

    @Test func every_call_is_decoded() throws {
        let calls: [(String, ControlCall)] = [
            (#""list""#, .list(Filter(withoutBodies: true))),
            (
                #""list","conversation":"ana","statuses":["sent","read"],"after":5,"limit":1000,"newest_first":true,"bodies":true"#,
                .list(
                    Filter(
                        conversation: "ana", statuses: [StatusSet(.sent), StatusSet(.read)], after: 5, limit: 1000, newestFirst: true,
                        withoutBodies: false))
            ),
            (#""list","reasons":true"#, .list(Filter(withoutBodies: true, withReasons: true))),
            (#""list","waiting_for":"paused""#, .list(waiting(for: .paused))),
            (#""get","message":"m""#, .get("m")), (#""explain","message":"m""#, .explain("m")),
            (#""attempts","message":"m""#, .attempts("m")),
            (#""counts","conversation":null"#, .counts(conversation: nil)), (#""counts","conversation":"a""#, .counts(conversation: "a")),
            (#""conversations""#, .conversations(before: 0, limit: 50)),
            (#""conversations","before":9,"limit":2"#, .conversations(before: 9, limit: 2)),
            (#""conversations","order":"time""#, .conversationsByTime(before: nil, limit: 50)),
            (
                #""conversations","order":"time","before":9,"before_time_ms":7"#,
                .conversationsByTime(before: TimePlace(7, 9), limit: 50)
            ),
            (
                #""list","order":"time","after":5,"after_time_ms":8"#,
                .list(Filter(after: 5, withoutBodies: true, order: .time, afterTime: 8))
            ),
            (#""conversation","conversation":"a""#, .conversation("a")),
            (#""set_title","conversation":"a","title":"Ana""#, .setTitle("Ana", conversation: "a")),
            (#""enqueue","body":"","time_ms":5"#, .enqueue(ControlDraft(time: 5))),
            (#""record","sender":"Ana","body":"","time_ms":5"#, .record(ControlDraft(time: 5, sender: "Ana"))),
            (#""stats""#, .stats), (#""stats_text""#, .statsText), (#""minutes""#, .minutes),
            (#""state""#, .state), (#""banner""#, .banner(conversation: nil)),
            (#""drain""#, .drain(conversation: nil, batch: 0, timeout: nil)),
            (#""drain","conversation":"a","batch":3,"timeout_ms":0"#, .drain(conversation: "a", batch: 3, timeout: 0)),
            (#""retry","message":"m""#, .retry("m")), (#""retry_all""#, .retryAll(.failed(nil))),
            (#""retry_all","kind":"rate_limit","code":429"#, .retryAll(.failed(nil, .rateLimit, 429))),
            (#""failures","limit":7"#, .failures(limit: 7)), (#""waiting""#, .waiting),
            (#""send_now","message":"m""#, .sendNow("m")),
            (#""edit","message":"m","body":"ä""#, .edit("m", ControlChange(body: Array("ä".utf8)), ifEdited: -1)),
            (#""edit","message":"m","body_base64":"/w==""#, .edit("m", ControlChange(body: [0xff]), ifEdited: -1)),
            (
                #""edit","message":"m","body":"","metadata":{"k":"v"},"if_edited_ms":0"#,
                .edit("m", ControlChange(body: [], metadata: [.init("k", "v")]), ifEdited: 0)
            ),
            (
                #""edit","message":"m","body":"","metadata":{},"if_edited_ms":-1"#,
                .edit("m", ControlChange(body: [], metadata: []), ifEdited: -1)
            ),
            (#""update","message":"m","body":"x","metadata":null"#, .update("m", ControlChange(body: Array("x".utf8)))),
            (
                #""update","message":"m","body":"x","metadata":{"k":"v"},"time_ms":7"#,
                .update("m", ControlChange(body: Array("x".utf8), metadata: [.init("k", "v")], time: 7))
            ),
            (#""delete","message":"m""#, .delete("m")), (#""clear","conversation":"a""#, .clear(conversation: "a")),
            (#""clear_failed","conversation":"a","code":0"#, .clearFailed(.failed("a", .none, 0))),
            (#""delete_conversation","conversation":"a""#, .deleteConversation("a")),
            (#""pause""#, .pause(conversation: nil)), (#""resume""#, .resume(conversation: nil)),
            (#""backup","path":"/x""#, .backup(path: "/x")),
            (#""check""#, .check), (#""enqueue","body":"""#, .enqueue(ControlDraft())),
            (
                #""enqueue","message":"m","conversation":"a","body":"x","metadata":{"k":"v"},"not_before_ms":1,"expires_at_ms":2,"unmetered_only":true,"replace_key":"r""#,
                .enqueue(
                    ControlDraft(
                        id: "m", conversation: "a", body: [0x78], metadata: [JSONValue.Member("k", "v")], notBefore: 1, expiresAt: 2,
                        unmeteredOnly: true, replaceKey: "r"))
            ),
            (#""enqueue","body":"","delay_ms":5"#, .enqueue(ControlDraft(delay: 5))),
            (
                #""enqueue_batch","drafts":[{"message":"m","body":"x","priority":7},{"conversation":"a","body":"","delay_ms":5}]"#,
                .enqueueBatch([ControlDraft(id: "m", body: [0x78], priority: 7), ControlDraft(conversation: "a", delay: 5)])
            ),
            (
                #""record","message":"m","conversation":"a","sender":"Ana","body":"x""#,
                .record(ControlDraft(id: "m", conversation: "a", body: [0x78], sender: "Ana"))
            ),
            (
                #""record_batch","drafts":[{"message":"m","sender":"Ana","body":"x","time_ms":5},{"conversation":"a","body_base64":"/w=="}]"#,
                .recordBatch([ControlDraft(id: "m", body: [0x78], time: 5, sender: "Ana"), ControlDraft(conversation: "a", body: [0xff])])
            ),
            (#""mark","message":"m","status":"read""#, .mark("m", as: .read)),
            (#""mark_batch","messages":["m","n"],"status":"delivered""#, .markBatch(["m", "n"], as: .delivered)),
            (#""mark_up_to","message":"m","status":"read""#, .markUpTo("m", as: .read)),
            (#""set_lifecycle","lifecycle":"background""#, .setLifecycle(isInBackground: true)), (#""withdraw_prompt""#, .withdrawPrompt),
            (#""request_collect""#, .requestCollect), (#""changes""#, .changes(after: nil, limit: 50)),
            (#""changes","after":"t","limit":7"#, .changes(after: "t", limit: 7)),
            (#""subscribe""#, .subscribe(Set(EventName.allCases))),
            (#""subscribe","events":["status","drain_finished"]"#, .subscribe([.status, .drainFinished])),
            (#""unsubscribe""#, .unsubscribe), (#""ping""#, .ping),
        ]
        for (text, expected) in calls { #expect(try call(text) == expected) }
        let tested = Set(calls.compactMap { $0.0.split(separator: "\"").first.map(String.init) })
        #expect(tested == Set(ControlRule.all.map(\.call)))
    }

    @Test(
        arguments: [
            (#""nothing""#, "unknown call: nothing"), (#"5"#, "call must be a string"), (#""ping","a":1"#, "ping: unknown field a"),
            (#""get""#, "get: the field message is missing"), (#""get","message":5"#, "get: message must be a string"),
            (#""get","message":null"#, "get: message must be a string"), (#""list","limit":0"#, "list: limit must be 1 to 1000, got 0"),
            (#""list","limit":1001"#, "list: limit must be 1 to 1000, got 1001"),
            (#""list","limit":1.0"#, "list: limit must be an integer"),
            (#""list","after":-1"#, "list: after must be 0 to 9223372036854775807, got -1"),
            (#""list","bodies":1"#, "list: bodies must be true or false"),
            (#""list","statuses":[]"#, "list: statuses must be a non-empty array of queued, sending, sent, delivered, read, failed"),
            (
                #""list","statuses":["Queued"]"#,
                "list: statuses must be a non-empty array of queued, sending, sent, delivered, read, failed"
            ),
            (#""mark","message":"m","status":"queued""#, "mark: status must be one of delivered, read"),
            (#""mark_batch","messages":[],"status":"read""#, "mark_batch: messages must be an array of 1 to 1000 elements"),
            (#""mark_batch","messages":["m",5],"status":"read""#, "mark_batch: messages must be an array of strings"),
            (#""record_batch","drafts":{}"#, "record_batch: drafts must be an array of 1 to 1000 elements"),
            (#""record_batch","drafts":["m"]"#, "record_batch: drafts must be an array of objects"),
            (
                #""record_batch","drafts":[{"body":""},{"body":"","id":"m"}]"#,
                "record_batch: unknown field id, in element 1 of drafts"
            ),
            (
                #""record_batch","drafts":[{"body":"","time_ms":"now"}]"#,
                "record_batch: time_ms must be an integer, in element 0 of drafts"
            ),
            (#""record_batch","drafts":[{"body":""},{}]"#, "draft 1: body or body_base64 is missing"),
            (#""enqueue_batch","drafts":[]"#, "enqueue_batch: drafts must be an array of 1 to 1000 elements"),
            (
                #""enqueue_batch","drafts":[{"body":""},{"body":"","sender":"Ana"}]"#,
                "enqueue_batch: unknown field sender, in element 1 of drafts"
            ),
            (#""enqueue","body":"a","metadata":{"k":1}"#, "enqueue: metadata must be an object whose values are strings"),
            (#""enqueue""#, "body or body_base64 is missing"),
            (#""enqueue","body":"","body_base64":"""#, "body and body_base64 must not both be given"),
            (#""enqueue","body":"","not_before_ms":1,"delay_ms":1"#, "not_before_ms and delay_ms must not both be given"),
            (#""edit","message":"m","body_base64":"a""#, "body_base64 is not base64"),
            (#""edit","message":"m","body":"","if_edited_ms":-2"#, "edit: if_edited_ms must be -1 to 9223372036854775807, got -2"),
            (#""edit","message":"m","body":"","time_ms":1"#, "edit: unknown field time_ms"),
            (#""update","message":"m","body":"","if_edited_ms":0"#, "update: unknown field if_edited_ms"),
            (#""update","message":"m","body":"","metadata":{"k":1}"#, "update: metadata must be an object whose values are strings"),
            (#""update","message":"m""#, "body or body_base64 is missing"),
            (#""drain","batch":2147483648"#, "drain: batch must be 0 to 2147483647, got 2147483648"),
        ])
    func wrong_requests_are_refused(text: String, detail: String) { #expect(refusal(text) == detail) }

    @Test func the_id_is_an_integer_or_a_short_string() {
        #expect(request(#"{"id":"é","call":"ping"}"#).id == "é")
        #expect(request(#"{"id":-5,"call":"nothing"}"#).id == -5)
        let long = String(repeating: "a", count: 256)
        for id in ["null", "1.5", "[]", "{}", "true", "\"\(long)\""] { #expect(request(#"{"id":\#(id),"call":"ping"}"#).id == .null) }
        for text in ["", "[]", "5", "{", #"{"call":"ping"}"#, #"{"id":1,"id":2,"call":"ping"}"#] {
            let request = request(text)
            #expect(request.id == .null)
            #expect(throws: QueueError.self) { try request.call.get() }
        }
    }

    @Test func random_changes_of_requests_never_trap() {
        var generator = SeededGenerator(16)
        let fields = Set(ControlRule.all.flatMap(\.fields).map(\.name)).sorted() + ["id", "call", "unknown"]
        let values = [
            "null", "true", "0", "-1", "9223372036854775807", "1.5", "\"\"", "\"m\"", "\"sent\"", "\"ä\\u0000\"", "[]", "[\"sent\"]", "{}",
            "{\"a\":\"b\"}",
        ]
        for _ in 0..<20_000 {
            let given = Set((0..<generator.int(0...4)).map { _ in generator.pick(fields) }).subtracting(["id", "call"])
            let members = given.map { "\"\($0)\":\(generator.pick(values))" }
            let text = "{" + (["\"id\":1", "\"call\":\"\(generator.pick(ControlRule.all).call)\""] + members).joined(separator: ",") + "}"
            var bytes = Array(text.utf8)
            if generator.chance(30) { bytes[generator.int(0...bytes.count - 1)] = UInt8(generator.int(0...255)) }
            if case .failure(let error) = ControlRequest(line: bytes).call { #expect(error.code == .invalid) }
        }
    }

    /// The page has a row for every call: its name, its fields (the required ones in bold), and the answer.
    @Test func the_page_describes_the_table_of_calls() throws {
        var root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        for _ in 0..<4 { root.deleteLastPathComponent() }
        let page = try String(contentsOf: root.appendingPathComponent("Sources/MsgQueue/MsgQueue.docc/ControlSocket.md"), encoding: .utf8)
        var described: [String: (all: Set<String>, required: Set<String>)] = [:]
        var order: [String] = []
        for line in page.split(separator: "\n") {
            guard let row = line.wholeMatch(of: /\| `(\w+)` \|(.*?)\| (.+) \|/) else { continue }
            let call = String(row.1)
            guard ControlRule.all.contains(where: { $0.call == call }) || !EventName.allCases.contains(where: { $0.rawValue == call })
            else { continue }
            order.append(call)
            described[call] = (
                Set(row.2.matches(of: /`(\w+)`/).map { String($0.1) }), Set(row.2.matches(of: /\*\*`(\w+)`\*\*/).map { String($0.1) })
            )
        }
        #expect(order == ControlRule.all.map(\.call))
        for rule in ControlRule.all {
            #expect(described[rule.call]?.all == Set(rule.fields.map(\.name)), "\(rule.call)")
            #expect(described[rule.call]?.required == Set(rule.fields.filter(\.isRequired).map(\.name)), "\(rule.call)")
        }
        for name in EventName.allCases { #expect(page.contains("| `\(name.rawValue)` |"), "\(name)") }
        #expect(page.contains("protocol \(ControlLine.version)"))
    }
}
