package commitlog;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.StringTokenizer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.Job;
import org.apache.parquet.hadoop.ParquetOutputFormat;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Map;

/**
 * Spark's Parquet files, with the field ids that Spark has no place for: those of lists' elements and of maps' keys and values.
 *
 * identified_files.py has Spark's own compiler make it, in the driver; tasks need the nested class alone.
 */
public class IdentifiedParquet extends ParquetFileFormat {
    public OutputWriterFactory prepareWrite(SparkSession session, Job job, Map options, StructType schema) {
        OutputWriterFactory made = super.prepareWrite(session, job, options, schema);
        ParquetOutputFormat.setWriteSupportClass(job, Support.class);
        return made;
    }

    public static class Support extends ParquetWriteSupport {
        public WriteContext init(Configuration configuration) {
            WriteContext made = super.init(configuration);
            MessageType schema = made.getSchema();
            StringTokenizer ids = new StringTokenizer(configuration.get("commitlog.element.ids"));
            return new WriteContext(new MessageType(schema.getName(), identified(schema, ids)), made.getExtraMetaData());
        }

        /** The fields of a group: one without an id gets the next, but for the repeated groups of Parquet's own, which have none. */
        private static List identified(GroupType group, StringTokenizer ids) {
            List found = new ArrayList();
            for (Iterator fields = group.getFields().iterator(); fields.hasNext();) {
                Type field = (Type) fields.next();
                if (field.getId() == null && !field.isRepetition(Type.Repetition.REPEATED)) {
                    field = field.withId(Integer.parseInt(ids.nextToken()));
                }
                found.add(field.isPrimitive() ? field : field.asGroupType().withNewFields(identified(field.asGroupType(), ids)));
            }
            return found;
        }
    }
}
