// Reads a log's results in Java, by their Avro schemas and the rule of docs/reading-results.md, and proposes to it.
//
//     java -cp "jars/*" LogReader.java check SCHEMAS              the rule alone: records from standard input
//     java -cp "jars/*" LogReader.java read SCHEMAS LOG client.properties
//     java -cp "jars/*" LogReader.java propose SCHEMAS LOG client.properties WRITER NAME    create a schema of this name
//
// SCHEMAS is the folder schemas/ of commitlog, jars has kafka-clients and avro with what they need, client.properties is Kafka's.

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Utils;

public final class LogReader {
    static final int HEADER_BYTES = 10;
    static final int OUTCOME_HEAD_FIELDS = 6;
    static final int RULES_KNOWN = 1;
    static final Duration POLL = Duration.ofMillis(200);
    static final Duration ANSWER_WITHIN = Duration.ofSeconds(60);

    public static void main(String[] arguments) throws Exception {
        Records records = new Records(Path.of(arguments[1]));
        switch (arguments[0]) {
            case "check" -> check(records);
            case "read" -> read(records, arguments[2], properties(arguments[3]), outcome -> {
                if (outcome.getSchema().getName().equals("Outcome")) {
                    System.out.printf("%s %s %s%n", outcome.get("seq"), outcome.get("verdict"), outcome.get("snapshot_id"));
                }
            });
            case "propose" -> propose(records, arguments[2], properties(arguments[3]), arguments[4], arguments[5]);
            default -> throw new IllegalArgumentException("check, read or propose, not " + arguments[0]);
        }
    }

    // --- records: C3 01, the schema's fingerprint, the body ----------------------------------------------------------

    /** The schemas by their fingerprints, and by their names. */
    static final class Records {
        private final Map<Long, Schema> byFingerprint = new HashMap<>();
        private final Map<String, Schema> byName = new HashMap<>();
        private final Schema outcomeHead;

        Records(Path folder) throws IOException {
            try (var files = Files.newDirectoryStream(folder, "*.avsc")) {
                for (Path file : files) {
                    Schema schema = new Schema.Parser().setValidateDefaults(false).parse(file.toFile());
                    byFingerprint.put(SchemaNormalization.parsingFingerprint64(schema), schema);
                    byName.put(schema.getName(), schema);
                }
            }
            List<Schema.Field> first = new ArrayList<>();
            for (Schema.Field each : schema("Outcome").getFields().subList(0, OUTCOME_HEAD_FIELDS)) {
                first.add(new Schema.Field(each, each.schema()));
            }
            outcomeHead = Schema.createRecord("Outcome", null, "head", false, first);
        }

        Schema schema(String name) {
            return byName.get(name);
        }

        static boolean isOurs(byte[] bytes) {
            return bytes != null && bytes.length >= HEADER_BYTES && (bytes[0] & 0xFF) == 0xC3 && bytes[1] == 0x01;
        }

        /** The value of a record that is ours; null when its body does not decode. */
        GenericRecord decode(byte[] bytes) {
            return read(bytes, writtenBy(bytes), true);
        }

        /** What the rule asks of a record that is ours: of an outcome its first fields, whatever comes behind them. */
        GenericRecord head(byte[] bytes) {
            Schema written = writtenBy(bytes);
            boolean isOutcome = written.getName().equals("Outcome");
            return read(bytes, isOutcome ? outcomeHead : written, !isOutcome);
        }

        private Schema writtenBy(byte[] bytes) {
            Schema written = byFingerprint.get(ByteBuffer.wrap(bytes, 2, 8).order(ByteOrder.LITTLE_ENDIAN).getLong());
            if (written == null) {
                throw new Stopped("another version wrote this");
            }
            return written;
        }

        private static GenericRecord read(byte[] bytes, Schema written, boolean toTheEnd) {
            BinaryDecoder body =
                    DecoderFactory.get().binaryDecoder(bytes, HEADER_BYTES, bytes.length - HEADER_BYTES, null);
            try {
                GenericRecord value = new GenericDatumReader<GenericRecord>(written).read(null, body);
                return !toTheEnd || body.isEnd() ? value : null;
            } catch (IOException | RuntimeException broken) {
                return null;
            }
        }

        byte[] encode(GenericRecord value) throws IOException {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            long fingerprint = SchemaNormalization.parsingFingerprint64(value.getSchema());
            out.write(new byte[] {(byte) 0xC3, 0x01});
            out.write(ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(fingerprint).array());
            BinaryEncoder body = EncoderFactory.get().binaryEncoder(out, null);
            new GenericDatumWriter<GenericRecord>(value.getSchema()).write(value, body);
            body.flush();
            return out.toByteArray();
        }
    }

    // --- the rule: which records of the results count ----------------------------------------------------------------

    /** Nothing more may be given out. */
    static final class Stopped extends RuntimeException {
        Stopped(String why) {
            super(why);
        }
    }

    record Accepted(byte[] bytes, long offset, long epoch, long seq, byte[] hash) {}

    interface Taker {
        void take(GenericRecord value);
    }

    /** What docs/reading-results.md says, step by step. */
    static final class Rule {
        private final Records records;
        private long next = 0;
        private byte[] logId = null;
        private long epoch = 0;
        private long seq = 0;
        private byte[] hash = null;

        Rule(Records records) {
            this.records = records;
        }

        /** The record if it counts, else null. */
        Accepted take(long offset, byte[] bytes) throws Exception {
            if (offset != next) {
                throw new Stopped("offsets are missing");
            }
            next = offset + 1;
            GenericRecord head = Records.isOurs(bytes) ? records.head(bytes) : null;
            if (head == null || !counts(head, bytes)) {
                return null;
            }
            return new Accepted(bytes, offset, epoch, seq, hash);
        }

        private boolean counts(GenericRecord value, byte[] bytes) throws Exception {
            String kind = value.getSchema().getName();
            if (kind.equals("Genesis")) {
                return begins(value, bytes);
            }
            if (!kind.equals("Takeover") && !kind.equals("Outcome")) {
                return false;
            }
            if (logId == null) {
                throw new Stopped("no genesis");
            }
            if (!Arrays.equals(fixed(value, "log_id"), logId)) {
                throw new Stopped("another log");
            }
            return kind.equals("Takeover") ? takesOver(value, bytes) : follows(value, bytes);
        }

        private boolean begins(GenericRecord genesis, byte[] bytes) throws Exception {
            if (logId != null) {
                return false;
            }
            checkRules(genesis);
            logId = fixed(genesis, "log_id");
            hash = sha256(bytes);
            return true;
        }

        private boolean takesOver(GenericRecord takeover, byte[] bytes) throws Exception {
            if ((long) takeover.get("epoch") != epoch + 1) {
                return false;
            }
            epoch += 1;
            hash = sha256(hash, bytes);
            return true;
        }

        private boolean follows(GenericRecord outcome, byte[] bytes) throws Exception {
            if ((long) outcome.get("epoch") != epoch || (long) outcome.get("seq") != seq + 1) {
                return false;
            }
            if (!Arrays.equals(fixed(outcome, "prev_hash"), hash)) {
                throw new Stopped("another history");
            }
            checkRules(outcome);
            seq += 1;
            hash = sha256(bytes);
            return true;
        }

        private static void checkRules(GenericRecord value) {
            if ((int) value.get("rules_version") > RULES_KNOWN) {
                throw new Stopped("other rules");
            }
        }
    }

    static byte[] fixed(GenericRecord value, String field) {
        return ((GenericFixed) value.get(field)).bytes();
    }

    static byte[] sha256(byte[]... parts) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (byte[] part : parts) {
            digest.update(part);
        }
        return digest.digest();
    }

    /** Lines "offset base64", "-" for a record without a value; "log" begins another one. Tells what counts, and where it stops. */
    static void check(Records records) throws Exception {
        Rule rule = new Rule(records);
        boolean goesOn = true;
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("log")) {
                System.out.println(line);
                rule = new Rule(records);
                goesOn = true;
            } else if (goesOn) {
                long offset = Long.parseLong(words[0]);
                try {
                    Accepted accepted = rule.take(offset, words[1].equals("-") ? null : Base64.getDecoder().decode(words[1]));
                    if (accepted != null) {
                        String hash = HexFormat.of().formatHex(accepted.hash);
                        System.out.printf("%d %d %d %s%n", offset, accepted.epoch, accepted.seq, hash);
                    }
                } catch (Stopped stopped) {
                    System.out.printf("stops %d%n", offset);
                    goesOn = false;
                }
            }
        }
    }

    // --- Kafka --------------------------------------------------------------------------------------------------------

    static Properties properties(String file) throws IOException {
        Properties properties = new Properties();
        try (var in = Files.newInputStream(Path.of(file))) {
            properties.load(in);
        }
        return properties;
    }

    static KafkaConsumer<byte[], byte[]> consumer(Properties properties) {
        Properties all = new Properties();
        all.putAll(properties);
        all.put("isolation.level", "read_uncommitted");
        all.put("auto.offset.reset", "none");
        all.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** All that the results hold now, from the first record on. */
    static void read(Records records, String log, Properties properties, Taker taker) throws Exception {
        TopicPartition results = new TopicPartition(log + ".results", 0);
        Rule rule = new Rule(records);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(properties)) {
            consumer.assign(List.of(results));
            consumer.seek(results, 0);
            long end = consumer.endOffsets(List.of(results)).get(results);
            while (rule.next < end) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(POLL)) {
                    Accepted accepted = rule.take(each.offset(), each.value());
                    if (accepted != null) {
                        taker.take(whole(records, accepted));
                    }
                }
            }
        }
    }

    private static GenericRecord whole(Records records, Accepted accepted) {
        GenericRecord value = records.decode(accepted.bytes);
        if (value == null) {
            throw new Stopped("the record at offset " + accepted.offset + " counts and does not decode: it was changed");
        }
        return value;
    }

    /** Proposes a schema on the newest snapshot, and tells the answer. */
    static void propose(Records records, String log, Properties properties, String writer, String name) throws Exception {
        long[] known = new long[2];
        read(records, log, properties, value -> {
            switch (value.getSchema().getName()) {
                case "Outcome" -> known[1] = (long) value.get("head_snapshot_id");
                case "Genesis" -> known[0] = (int) value.get("partitions");
                default -> {}
            }
        });
        Schema proposal = records.schema("Proposal");
        Schema create = proposal.getField("changes").schema().getElementType().getTypes().stream()
                .filter(each -> each.getName().equals("CreateSchema")).findFirst().orElseThrow();
        byte[] id = newId();
        GenericRecord proposed = new GenericRecordBuilder(proposal)
                .set("proposal_id", new GenericData.Fixed(proposal.getField("proposal_id").schema(), id))
                .set("writer_id", writer)
                .set("base_snapshot_id", known[1])
                .set("created_at_ms", System.currentTimeMillis())
                .set("message", "from Java")
                .set("changes", List.of(new GenericRecordBuilder(create).set("schema", name).build()))
                .build();
        byte[] key = writer.getBytes("UTF-8");
        int partition = Utils.toPositive(Utils.murmur2(key)) % (int) known[0];
        GenericRecord answer = answered(records, log, properties, partition, key, records.encode(proposed), id);
        System.out.printf("%s %s %s %s%n",
                answer.get("verdict"), answer.get("snapshot_id"), answer.get("reason"), answer.get("detail"));
    }

    /** A writer's proposals and their answers are in one partition; where its answers begin is known before anything is sent. */
    static GenericRecord answered(
            Records records, String log, Properties properties, int partition, byte[] key, byte[] proposal, byte[] id)
            throws Exception {
        TopicPartition receipts = new TopicPartition(log + ".receipts", partition);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(properties);
                var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            consumer.assign(List.of(receipts));
            consumer.seek(receipts, consumer.endOffsets(List.of(receipts)).get(receipts));
            producer.send(new ProducerRecord<>(log + ".proposals", partition, key, proposal)).get();
            Instant until = Instant.now().plus(ANSWER_WITHIN);
            while (Instant.now().isBefore(until)) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(POLL)) {
                    GenericRecord packed = Records.isOurs(each.value()) ? records.decode(each.value()) : null;
                    for (Object found : packed == null ? List.of() : (List<?>) packed.get("receipts")) {
                        GenericRecord receipt = (GenericRecord) found;
                        if (receipt.get("proposal_id") instanceof GenericFixed of && Arrays.equals(of.bytes(), id)) {
                            return receipt;
                        }
                    }
                }
            }
        }
        throw new IllegalStateException("no answer in time: it may be decided yet; send it again under its id, to be told");
    }

    /** A UUID of version 7: its time says how long the log must remember it. */
    static byte[] newId() {
        byte[] id = new byte[16];
        ThreadLocalRandom.current().nextBytes(id);
        System.arraycopy(ByteBuffer.allocate(8).putLong(System.currentTimeMillis()).array(), 2, id, 0, 6);
        id[6] = (byte) (id[6] & 0x0F | 0x70);
        id[8] = (byte) (id[8] & 0x3F | 0x80);
        return id;
    }
}
